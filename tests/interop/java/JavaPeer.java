import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.casting.CastExecutor;
import org.apache.paimon.casting.CastExecutors;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.options.Options;
import org.apache.paimon.partition.actions.PartitionMarkDoneAction;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Instant;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;
import org.apache.paimon.types.VarCharType;

/**
 * Java's side of the interop tests. One command per line on standard input, one JSON answer per line on standard output:
 *
 * <pre>
 * read WAREHOUSE DB TABLE [key=value ...]     rows of a batch read, with dynamic options
 * find WAREHOUSE DB TABLE COLUMN TEXT         rows whose text column equals a value, filtered and pruned by Java
 * copy WAREHOUSE DB SOURCE TARGET             append all rows of one table to another, as Java
 * apply WAREHOUSE DB SOURCE TARGET [k=v ...]  the same for changes: the first column of the source is the row kind
 * compact WAREHOUSE DB TABLE [key=value ...]  full compaction of every bucket
 * branch WAREHOUSE DB TABLE NAME              make an empty branch
 * set WAREHOUSE DB TABLE key=value ...        store options in the schema
 * databases WAREHOUSE, tables WAREHOUSE DB    names
 * createdb WAREHOUSE DB [key=value ...]       create a database with properties
 * create WAREHOUSE DB TABLE [key=value ...]   create a table of p, k and v, with partitions by p and the keys p and k
 * rename WAREHOUSE DB TABLE NEW, drop WAREHOUSE DB TABLE, dropdb WAREHOUSE DB
 * make WAREHOUSE DB TABLE COLUMNS PARTITIONS KEYS [key=value ...]   columns as `k INT,v STRING`, keys as `k,v`
 * write WAREHOUSE DB TABLE ROW ...            one commit of rows such as `+I|1|a`; an empty cell is null
 * addcolumn WAREHOUSE DB TABLE NAME TYPE      add a column
 * renamecolumn WAREHOUSE DB TABLE OLD NEW     rename a column
 * tag WAREHOUSE DB TABLE NAME                 tag the newest snapshot by a call of the catalog
 * forward WAREHOUSE DB TABLE BRANCH           bring the table to the state of a branch
 * rollback WAREHOUSE DB TABLE SNAPSHOT        make a snapshot the newest one
 * goback WAREHOUSE DB TABLE SNAPSHOT          the same as rollback where files decide, not a server
 * fastforward WAREHOUSE DB TABLE BRANCH       the same as forward where files decide
 * retaintag WAREHOUSE DB TABLE NAME DURATION  tag the newest snapshot for a time such as PT1H
 * expirepartitions WAREHOUSE DB TABLE         expire partitions as the table's options say
 * expiretags WAREHOUSE DB TABLE               delete the tags whose time is over
 * batchtag WAREHOUSE DB TABLE                 make the tag that follows a batch write
 * markdone WAREHOUSE DB TABLE PARTITION       carry out the actions of a partition that is done, such as p=1/q=2
 * purge WAREHOUSE DB TABLE                    remove all rows with their history and files
 * columns WAREHOUSE DB TABLE                  name and type of each column, also of system tables
 * systemtables WAREHOUSE                      names of the system tables of a table, and of those of the catalog
 * </pre>
 *
 * A WAREHOUSE may be options of a catalog: {@code metastore=jdbc|uri=jdbc:sqlite:x|warehouse=y}.
 */
public class JavaPeer {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        java.util.Scanner in = new java.util.Scanner(System.in, StandardCharsets.UTF_8);
        while (in.hasNextLine()) {
            String[] words = in.nextLine().split("\t", -1);
            try {
                out.println(run(words));
            } catch (Throwable failure) {
                java.io.StringWriter trace = new java.io.StringWriter();
                failure.printStackTrace(new java.io.PrintWriter(trace));
                out.println("{\"error\": " + text(trace.toString()) + "}");
            }
        }
    }

    static String run(String[] words) throws Exception {
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options(words[1])))) {
            String named = names(catalog, words);
            if (named != null) {
                return named;
            }
            Identifier identifier = Identifier.create(words[2], words[3]);
            if (words[0].equals("make")) {
                create(catalog, identifier, words);
                return "{}";
            }
            if (words[0].equals("branch")) {
                ((FileStoreTable) catalog.getTable(identifier)).createBranch(words[4]);
                return "{}";
            }
            if (words[0].equals("set")) {
                List<SchemaChange> changes = new ArrayList<>();
                pairs(words, 4).forEach((key, value) -> changes.add(SchemaChange.setOption(key, value)));
                catalog.alterTable(identifier, changes, false);
                return "{}";
            }
            if (change(catalog, identifier, words)) {
                return "{}";
            }
            Table table = catalog.getTable(identifier);
            if (words[0].equals("columns")) {
                List<String> columns = new ArrayList<>();
                for (DataField field : table.rowType().getFields()) {
                    columns.add("[" + text(field.name()) + ", " + text(field.type().toString()) + "]");
                }
                return "{\"columns\": [" + String.join(", ", columns) + "]}";
            }
            if (words[0].equals("read")) {
                return "{\"rows\": [" + String.join(", ", rows(with(table, words, 4))) + "]}";
            }
            if (words[0].equals("find")) {
                int column = table.rowType().getFieldIndex(words[4]);
                Predicate equal = new PredicateBuilder(table.rowType()).equal(column, BinaryString.fromString(words[5]));
                return "{\"rows\": [" + String.join(", ", rows(table, equal)) + "]}";
            }
            if (words[0].equals("write")) {
                return write((FileStoreTable) table, words);
            }
            if (words[0].equals("compact")) {
                return compact((FileStoreTable) with(table, words, 4));
            }
            Table target = catalog.getTable(Identifier.create(words[2], words[4]));
            return copy(table, with(target, words, 5), words[0].equals("apply"));
        }
    }

    /** Carries out a command that is about names; null for any other. */
    static String names(Catalog catalog, String[] words) throws Exception {
        switch (words[0]) {
            case "systemtables":
                List<String> all = new ArrayList<>();
                SystemTableLoader.SYSTEM_TABLES.forEach(name -> all.add("$" + name));
                SystemTableLoader.loadGlobalTableNames().forEach(name -> all.add("sys." + name));
                return listed(all);
            case "databases":
                return listed(catalog.listDatabases());
            case "tables":
                return listed(catalog.listTables(words[2]));
            case "createdb":
                catalog.createDatabase(words[2], false, pairs(words, 3));
                return "{}";
            case "dropdb":
                catalog.dropDatabase(words[2], false, false);
                return "{}";
            case "create":
                Schema.Builder schema = Schema.newBuilder().column("p", DataTypes.STRING().notNull())
                        .column("k", DataTypes.INT().notNull()).column("v", DataTypes.STRING())
                        .partitionKeys("p").primaryKey("p", "k").options(pairs(words, 4));
                catalog.createTable(Identifier.create(words[2], words[3]), schema.build(), false);
                return "{}";
            case "rename":
                catalog.renameTable(Identifier.create(words[2], words[3]), Identifier.create(words[2], words[4]), false);
                return "{}";
            case "drop":
                catalog.dropTable(Identifier.create(words[2], words[3]), false);
                return "{}";
            default:
                return null;
        }
    }

    static String listed(List<String> names) {
        List<String> texts = new ArrayList<>();
        names.forEach(name -> texts.add(text(name)));
        return "{\"names\": [" + String.join(", ", texts) + "]}";
    }

    static Options options(String warehouse) {
        Options options = new Options();
        if (warehouse.contains("|")) {
            pairs(warehouse.split("[|]"), 0).forEach(options::set);
        } else {
            options.set("warehouse", warehouse);
        }
        return options;
    }

    static void create(Catalog catalog, Identifier identifier, String[] words) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        for (String column : words[4].split(",(?![^(]*\\))")) {
            schema.column(column.split(" ", 2)[0], type(column.split(" ", 2)[1]));
        }
        if (!words[5].isEmpty()) {
            schema.partitionKeys(words[5].split(","));
        }
        if (!words[6].isEmpty()) {
            schema.primaryKey(words[6].split(","));
        }
        catalog.createDatabase(identifier.getDatabaseName(), true);
        catalog.createTable(identifier, schema.options(pairs(words, 7)).build(), false);
    }

    static DataType type(String text) {
        return DataTypeJsonParser.parseAtomicTypeSQLString(text);
    }

    /** Carries out one of the short changes; says whether the command was one. */
    static boolean change(Catalog catalog, Identifier identifier, String[] words) throws Exception {
        switch (words[0]) {
            case "addcolumn":
                catalog.alterTable(identifier, SchemaChange.addColumn(words[4], type(words[5])), false);
                return true;
            case "renamecolumn":
                catalog.alterTable(identifier, SchemaChange.renameColumn(words[4], words[5]), false);
                return true;
            case "tag":
                catalog.createTag(identifier, words[4], null, null, false);
                return true;
            case "forward":
                catalog.fastForward(identifier, words[4]);
                return true;
            case "rollback":
                catalog.rollbackTo(identifier, Instant.snapshot(Long.parseLong(words[4])));
                return true;
            default:
                Table table = catalog.getTable(identifier);
                return table instanceof FileStoreTable && upkeep((FileStoreTable) table, words);
        }
    }

    /** Carries out a command of upkeep; says whether the command was one. */
    static boolean upkeep(FileStoreTable table, String[] words) throws Exception {
        switch (words[0]) {
            case "goback":
                table.rollbackTo(Long.parseLong(words[4]));
                return true;
            case "fastforward":
                table.fastForward(words[4]);
                return true;
            case "retaintag":
                table.createTag(words[4], java.time.Duration.parse(words[5]));
                return true;
            case "expirepartitions":
                table.store().newPartitionExpire("peer", table).expire(Long.MAX_VALUE);
                return true;
            case "expiretags":
                table.store().newTagAutoManager(table).getTagTimeExpire().expire();
                return true;
            case "batchtag":
                new org.apache.paimon.tag.TagBatchCreation(table).createTag();
                return true;
            case "markdone":
                for (PartitionMarkDoneAction action : PartitionMarkDoneAction.createActions(
                        JavaPeer.class.getClassLoader(), table, table.coreOptions())) {
                    action.markDone(words[4]);
                }
                return true;
            case "purge":
                table.purgeFiles();
                return true;
            default:
                return false;
        }
    }

    @SuppressWarnings("unchecked")
    static String write(FileStoreTable table, String[] words) throws Exception {
        List<DataField> fields = table.rowType().getFields();
        boolean dynamic = table.bucketMode() == BucketMode.HASH_DYNAMIC;
        HashBucketAssigner buckets = new HashBucketAssigner(
                table.snapshotManager(), "peer", table.store().newIndexFileHandler(), 1, 1, 0,
                table.coreOptions().dynamicBucketTargetRowNum(), -1);
        RowKeyExtractor keys = table.createRowKeyExtractor();
        BatchWriteBuilder sink = table.newBatchWriteBuilder();
        try (BatchTableWrite write = sink.newWrite(); BatchTableCommit commit = sink.newCommit()) {
            write.withIOManager(new org.apache.paimon.disk.IOManagerImpl(System.getProperty("java.io.tmpdir")));
            for (int i = 4; i < words.length; i++) {
                String[] cells = words[i].split("\\|", -1);
                GenericRow row = new GenericRow(RowKind.fromShortString(cells[0]), fields.size());
                for (int j = 0; j < fields.size(); j++) {
                    CastExecutor<Object, Object> cast = (CastExecutor<Object, Object>)
                            CastExecutors.resolve(new VarCharType(VarCharType.MAX_LENGTH), fields.get(j).type());
                    row.setField(j, cells[j + 1].isEmpty() ? null : cast.cast(BinaryString.fromString(cells[j + 1])));
                }
                if (dynamic) {
                    keys.setRecord(row);
                    write.write(row, buckets.assign(keys.partition(), keys.trimmedPrimaryKey().hashCode()));
                } else {
                    write.write(row);
                }
            }
            commit.commit(write.prepareCommit());
        }
        return "{}";
    }

    static Map<String, String> pairs(String[] words, int first) {
        Map<String, String> pairs = new HashMap<>();
        for (int i = first; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            pairs.put(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
        return pairs;
    }

    static Table with(Table table, String[] words, int first) {
        Map<String, String> dynamic = pairs(words, first);
        return dynamic.isEmpty() ? table : table.copy(dynamic);
    }

    static String compact(FileStoreTable table) throws Exception {
        BatchWriteBuilder sink = table.newBatchWriteBuilder();
        if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            List<CommitMessage> messages = new ArrayList<>();
            for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                messages.add(task.doCompact(table, ((AppendOnlyFileStore) table.store()).newWrite("peer")));
            }
            try (BatchTableCommit commit = sink.newCommit()) {
                commit.commit(messages);
            }
            return "{}";
        }
        Map<BinaryRow, Set<Integer>> buckets = new HashMap<>();
        table.store().newScan().plan().files().forEach(
                entry -> buckets.computeIfAbsent(entry.partition().copy(), p -> new HashSet<>()).add(entry.bucket()));
        try (BatchTableWrite write = sink.newWrite(); BatchTableCommit commit = sink.newCommit()) {
            write.withIOManager(new org.apache.paimon.disk.IOManagerImpl(System.getProperty("java.io.tmpdir")));
            for (Map.Entry<BinaryRow, Set<Integer>> one : buckets.entrySet()) {
                for (int bucket : one.getValue()) {
                    write.compact(one.getKey(), bucket, true);
                }
            }
            commit.commit(write.prepareCommit());
        }
        return "{}";
    }

    static InternalRow change(InternalRow row, List<DataField> fields) {
        GenericRow out = new GenericRow(RowKind.fromShortString(row.getString(0).toString()), fields.size() - 1);
        for (int i = 1; i < fields.size(); i++) {
            out.setField(i - 1, InternalRow.createFieldGetter(fields.get(i).type(), i).getFieldOrNull(row));
        }
        return out;
    }

    static List<String> rows(Table table) throws Exception {
        return rows(table, null);
    }

    static List<String> rows(Table table, Predicate filter) throws Exception {
        List<DataField> fields = table.rowType().getFields();
        List<String> rows = new ArrayList<>();
        ReadBuilder builder = table.newReadBuilder();
        if (filter != null) {
            builder = builder.withFilter(filter);
        }
        TableRead read = filter == null ? builder.newRead() : builder.newRead().executeFilter();
        try (RecordReader<InternalRow> reader = read.createReader(builder.newScan().plan().splits())) {
            reader.forEachRemaining(row -> rows.add(list(row, fields)));
        }
        return rows;
    }

    static String copy(Table source, Table target, boolean kinds) throws Exception {
        BatchWriteBuilder sink = target.newBatchWriteBuilder();
        ReadBuilder builder = source.newReadBuilder();
        try (BatchTableWrite write = sink.newWrite();
                BatchTableCommit commit = sink.newCommit();
                RecordReader<InternalRow> reader =
                        builder.newRead().createReader(builder.newScan().plan().splits())) {
            write.withIOManager(new org.apache.paimon.disk.IOManagerImpl(System.getProperty("java.io.tmpdir")));
            reader.forEachRemaining(
                    row -> {
                        try {
                            write.write(kinds ? change(row, source.rowType().getFields()) : row);
                        } catch (Exception failure) {
                            throw new RuntimeException(failure);
                        }
                    });
            commit.commit(write.prepareCommit());
        }
        return "{}";
    }

    static String list(InternalRow row, List<DataField> fields) {
        List<String> cells = new ArrayList<>();
        for (int i = 0; i < fields.size(); i++) {
            DataType type = fields.get(i).type();
            cells.add(value(InternalRow.createFieldGetter(type, i).getFieldOrNull(row), type));
        }
        return "[" + String.join(", ", cells) + "]";
    }

    static String value(Object value, DataType type) {
        if (value == null) {
            return "null";
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
            case TINYINT:
            case SMALLINT:
            case INTEGER:
            case BIGINT:
                return value.toString();
            case FLOAT:
                return number(((Float) value).doubleValue());
            case DOUBLE:
                return number((Double) value);
            case BINARY:
            case VARBINARY:
                StringBuilder hex = new StringBuilder();
                for (byte b : (byte[]) value) {
                    hex.append(String.format("%02x", b));
                }
                return text(hex.toString());
            case DECIMAL:
                return text(((org.apache.paimon.data.Decimal) value).toBigDecimal().toPlainString());
            case DATE:
                return text(LocalDate.ofEpochDay((Integer) value).toString());
            case TIME_WITHOUT_TIME_ZONE:
                return text(LocalTime.ofNanoOfDay((Integer) value * 1_000_000L)
                        .format(DateTimeFormatter.ofPattern("HH:mm:ss.SSS")));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                String moment = ((Timestamp) value).toLocalDateTime()
                        .format(DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSSSSS"));
                return text(type.toString().contains("LOCAL") ? moment + "Z" : moment);
            case ARRAY:
                return array((InternalArray) value, ((ArrayType) type).getElementType());
            case MAP:
                return map((InternalMap) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return map((InternalMap) value, ((MultisetType) type).getElementType(),
                        new org.apache.paimon.types.IntType(false));
            case ROW:
                List<DataField> fields = ((RowType) type).getFields();
                List<String> members = new ArrayList<>();
                for (int i = 0; i < fields.size(); i++) {
                    DataType inner = fields.get(i).type();
                    Object cell = InternalRow.createFieldGetter(inner, i).getFieldOrNull((InternalRow) value);
                    members.add(text(fields.get(i).name()) + ": " + value(cell, inner));
                }
                return "{" + String.join(", ", members) + "}";
            case VARIANT:
                return "{\"json\": " + text(((org.apache.paimon.data.variant.Variant) value).toJson()) + "}";
            default:
                return text(value.toString());
        }
    }

    static String array(InternalArray array, DataType element) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(element);
        List<String> cells = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            cells.add(value(getter.getElementOrNull(array, i), element));
        }
        return "[" + String.join(", ", cells) + "]";
    }

    static String map(InternalMap map, DataType key, DataType element) {
        InternalArray.ElementGetter keys = InternalArray.createElementGetter(key);
        InternalArray.ElementGetter values = InternalArray.createElementGetter(element);
        List<String> pairs = new ArrayList<>();
        for (int i = 0; i < map.size(); i++) {
            pairs.add("[" + value(keys.getElementOrNull(map.keyArray(), i), key) + ", "
                    + value(values.getElementOrNull(map.valueArray(), i), element) + "]");
        }
        return "[" + String.join(", ", pairs) + "]";
    }

    static String number(double value) {
        return Double.isNaN(value) || Double.isInfinite(value) ? text(Double.toString(value)) : Double.toString(value);
    }

    static String text(String value) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : value.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
