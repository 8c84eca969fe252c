"""Lets the Python processes beside a Connect server talk to it through the proxy of a test."""

import os

if "SPARK_CONNECT_LOCAL_URL" in os.environ:
    os.environ["SPARK_CONNECT_LOCAL_URL"] = os.environ["LAKEWRIGHT_TEST_REMOTE"] + "/"
