import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;

import okhttp3.mockwebserver.Dispatcher;
import okhttp3.mockwebserver.MockResponse;
import okhttp3.mockwebserver.RecordedRequest;
import okhttp3.mockwebserver.SocketPolicy;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.catalog.TableMetadata;
import org.apache.paimon.rest.RESTApi;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.RESTToken;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.auth.DLFAuthProvider;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFToken;
import org.apache.paimon.rest.auth.RESTAuthParameter;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.rest.responses.ErrorResponse;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.TableSnapshot;

/**
 * Java Paimon's own REST catalog server, with faults and a log of the traffic; `support.java_rest` starts it and says what the options and commands do. It listens on the loopback only,
 * carries out one request at a time, and ends when stdin closes or after a time limit. Four faults of the class are repaired: it forgets where a renamed table lies and its newest snapshot, keeps the tables
 * of a dropped database and the branches of a dropped table, and gives a new branch the newest snapshot of the table.
 */
public class RestServer extends RESTCatalogServer {
    /** One rule: the next {@code left} requests that match are answered {@code how}; {@code carried} ones take place first. */
    static final class Fault {
        int left;
        final String how;
        final Pattern match;
        final boolean carried;

        Fault(int left, String how, String match, boolean carried) {
            this.left = left;
            this.how = how;
            this.match = Pattern.compile(match);
            this.carried = carried;
        }
    }

    // The superclass builds the dispatcher in its constructor, before fields of ours exist; one process is one server.
    static final Map<String, String> options = new HashMap<>();
    static final List<Fault> faults = new ArrayList<>();
    static final Object turn = new Object();
    static BufferedWriter log;
    static long tokenMillis;
    static int tokens, number;
    static String retryAfter;

    RestServer(String data, AuthProvider auth, ConfigResponse config, String warehouse) {
        super(data, auth, config, warehouse);
    }

    @Override
    public Dispatcher initDispatcher(AuthProvider auth) {
        Dispatcher real = super.initDispatcher(auth);
        return new Dispatcher() {
            @Override
            public MockResponse dispatch(RecordedRequest request) throws InterruptedException {
                String body = request.getBody().clone().readUtf8();
                long began = System.currentTimeMillis();
                String[] note = {""};
                MockResponse answer;
                synchronized (turn) {
                    answer = answer(real, request, body, note);
                }
                record(request, body, answer, System.currentTimeMillis() - began, note[0]);
                return answer;
            }
        };
    }

    private MockResponse answer(Dispatcher real, RecordedRequest request, String body, String[] note) throws InterruptedException {
        String what = request.getMethod() + " " + request.getPath();
        Fault refused = take(what, false);
        if (refused != null) {
            note[0] = "refused";
            return broken(refused.how);
        }
        if (tokenMillis > 0 && what.matches("GET .*/tables/[^/]+/token")) {
            freshToken(request.getPath());
        }
        MockResponse answer;
        try {
            answer = real.dispatch(request);
        } catch (RuntimeException e) {                         // the class cuts the connection then; so do we, and say why in the log
            note[0] = "crashed: " + e;
            return broken("cut");
        }
        boolean committed = what.endsWith("/commit") && text(answer).replace(" ", "").contains("\"success\":true");
        if (status(answer) == 200) {
            if (what.startsWith("POST ") && what.endsWith("/tables/rename")) {
                mendRename(body);
            } else if (what.startsWith("POST ") && what.endsWith("/branches")) {
                mendBranch(request.getPath(), body);
            } else if (what.matches("DELETE .*/databases/[^/]+(/tables/[^/]+)?")) {
                String[] p = what.substring(what.indexOf("/databases/")).split("/");
                mendDrop(decoded(p[2]) + "." + (p.length > 4 ? decoded(p[4]) + "$" : ""));
            }
        }
        Fault lost = what.endsWith("/commit") && !committed ? null : take(what, true);
        if (lost != null) {
            note[0] = "lost";
            return broken(lost.how);
        }
        return answer;
    }

    static synchronized Fault take(String what, boolean carried) {
        for (Fault f : faults) {
            if (f.carried == carried && f.left > 0 && f.match.matcher(what).find()) {
                f.left--;
                return f;
            }
        }
        return null;
    }

    static MockResponse broken(String how) {
        switch (how) {
            case "cut":
                return new MockResponse().setSocketPolicy(SocketPolicy.DISCONNECT_AFTER_REQUEST);
            case "hang":
                return new MockResponse().setSocketPolicy(SocketPolicy.NO_RESPONSE);
            case "half":
                return new MockResponse().setBody("{\"success\":true, \"and\": \"more\"}").setSocketPolicy(SocketPolicy.DISCONNECT_DURING_RESPONSE_BODY);
            case "garbage":
                return new MockResponse().setBody("<html>a proxy was here</html>");
            default:
                int code = Integer.parseInt(how);
                MockResponse r = new MockResponse().setResponseCode(code).addHeader("Content-Type", "application/json").addHeader("x-request-id", "r-" + number)
                        .setBody(json(new ErrorResponse(ErrorResponse.RESOURCE_TYPE_TABLE, null, "Service Failure", code)));
                return retryAfter == null ? r : r.addHeader("Retry-After", retryAfter);
        }
    }

    /** The server moves the files of a renamed table, but keeps its old path and forgets its newest snapshot. */
    private void mendRename(String body) {
        try {
            Map<?, ?> names = RESTApi.fromJson(body, Map.class);
            Map<?, ?> from = (Map<?, ?>) names.get("source"), to = (Map<?, ?>) names.get("destination");
            Map<String, TableSnapshot> latest = own("tableLatestSnapshotStore");
            Map<String, TableSnapshot> byId = own("tableWithSnapshotId2SnapshotStore");
            Map<String, List<Object>> partitions = own("tablePartitionsStore");
            Map<String, TableMetadata> tables = own("tableMetadataStore");
            String a = from.get("database") + "." + from.get("object"), b = to.get("database") + "." + to.get("object");
            TableMetadata m = tables.get(b);
            if (m != null && !m.isExternal()) {
                String path = m.schema().options().get("path");
                String moved = path.substring(0, path.lastIndexOf('/', path.lastIndexOf('/') - 1)) + "/" + to.get("database") + ".db/" + to.get("object");
                Map<String, String> o = new HashMap<>(m.schema().options());
                o.put("path", moved);
                TableSchema s = m.schema().copy(o);
                tables.put(b, new TableMetadata(s, false, m.uuid()));
                if (latest.containsKey(a)) {
                    latest.put(b, latest.remove(a));
                }
                if (partitions.containsKey(a)) {
                    partitions.put(b, partitions.remove(a));
                }
                for (String k : new ArrayList<>(byId.keySet())) {
                    if (k.startsWith(a + "-")) {
                        byId.put(b + k.substring(a.length()), byId.remove(k));
                    }
                }
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    /** The server gives every new branch the newest snapshot of the table: one at a tag has that of the tag, any other has none. */
    private void mendBranch(String path, String body) {
        try {
            String[] p = path.substring(path.indexOf("/databases/")).split("/");
            String table = decoded(p[2]) + "." + decoded(p[4]);
            Map<?, ?> asked = RESTApi.fromJson(body, Map.class);
            String branch = table + "$branch_" + asked.get("branch");
            Map<String, TableSnapshot> latest = own("tableLatestSnapshotStore");
            Map<String, TableSnapshot> byId = own("tableWithSnapshotId2SnapshotStore");
            latest.remove(branch);
            RestServer.this.<Map<String, Object>>own("tablePartitionsStore").remove(branch);
            if (asked.get("fromTag") != null) {
                Map<String, TableMetadata> tables = own("tableMetadataStore");
                Path root = Path.of(tables.get(table).schema().options().get("path").replaceFirst("^file:", ""));
                Map<?, ?> tag = RESTApi.fromJson(Files.readString(root.resolve("tag/tag-" + asked.get("fromTag"))), Map.class);
                latest.put(branch, byId.get(table + "-" + tag.get("id")));
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    /** The server deletes the files of a dropped database or table, but keeps the names and snapshots of its tables or branches. */
    private void mendDrop(String start) {
        try {
            for (String store : new String[] {"tableMetadataStore", "tableLatestSnapshotStore", "tableWithSnapshotId2SnapshotStore", "tablePartitionsStore"}) {
                RestServer.this.<Map<String, Object>>own(store).keySet().removeIf(k -> k.startsWith(start));
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    @SuppressWarnings("unchecked")
    <T> T own(String field) throws Exception {
        Field f = RESTCatalogServer.class.getDeclaredField(field);
        f.setAccessible(true);
        return (T) f.get(this);
    }

    private void freshToken(String path) {
        String[] p = path.split("/");
        Identifier table = Identifier.create(decoded(p[p.length - 4]), decoded(p[p.length - 2]));
        RESTToken old = getDataToken(table);
        if (old == null || old.expireAtMillis() <= System.currentTimeMillis()) {
            giveToken(table, tokenMillis);
        }
    }

    private void giveToken(Identifier table, long millis) {
        String n = ++tokens + "-" + Long.toHexString(Double.doubleToLongBits(Math.random()));
        Map<String, String> t = new HashMap<>();
        t.put("fs.s3.accessKeyId", "data-id-" + n);
        t.put("fs.s3.accessKeySecret", "data-secret-" + n);
        t.put("fs.s3.securityToken", "data-session-" + n);
        setDataToken(table, new RESTToken(t, System.currentTimeMillis() + millis));
    }

    private static synchronized void record(RecordedRequest q, String body, MockResponse a, long ms, String note) {
        number++;
        if (log == null) {
            return;
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("n", number);
        line.put("at", System.currentTimeMillis());
        line.put("request", q.getMethod() + " " + q.getPath());
        Map<String, String> headers = new TreeMap<>();
        q.getHeaders().forEach(h -> headers.put(h.getFirst(), h.getSecond().replaceFirst("^Bearer .*", "Bearer ...")));
        line.put("headers", headers);
        line.put("body", parsed(body));
        line.put("status", status(a));
        line.put("answer", parsed(text(a)));
        line.put("ms", ms);
        line.put("note", note);
        try {
            log.write(json(line));
            log.newLine();
            log.flush();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    static Object parsed(String s) {
        try {
            return s.isEmpty() ? null : RESTApi.fromJson(s, Object.class);
        } catch (Exception e) {
            return s;
        }
    }

    static String json(Object o) {
        try {
            return RESTApi.toJson(o).replaceAll("\\s*\\R\\s*", "");
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static String text(MockResponse a) {
        return a.getBody() == null ? "" : a.getBody().readUtf8();
    }

    /** 0 where nothing whole is sent. */
    static int status(MockResponse a) {
        return a.getSocketPolicy() != SocketPolicy.KEEP_OPEN ? 0 : Integer.parseInt(a.getStatus().split(" ")[1]);
    }

    static String decoded(String s) {
        return java.net.URLDecoder.decode(s, StandardCharsets.UTF_8);
    }

    /** One line of control, from stdin. */
    String command(String line) throws Exception {
        String[] w = line.trim().split("\\s+");
        switch (w[0]) {
            case "lose":
                add(new Fault(Integer.parseInt(w[1]), w.length > 2 ? w[2] : "500", w.length > 3 ? w[3] : "^POST .*/commit$", true));
                break;
            case "fail":
                add(new Fault(Integer.parseInt(w[1]), w[2], w.length > 3 ? w[3] : "", false));
                break;
            case "calm":
                synchronized (RestServer.class) {
                    faults.clear();
                }
                break;
            case "retry-after":
                retryAfter = w.length > 1 ? w[1] : null;
                break;
            case "deny":
                if (w[1].contains(".")) {
                    addNoPermissionTable(Identifier.fromString(w[1]));
                } else {
                    addNoPermissionDatabase(w[1]);
                }
                break;
            case "allow":
                RestServer.this.<List<String>>own(w[1].contains(".") ? "noPermissionTables" : "noPermissionDatabases").removeIf(w[1]::equals);
                break;
            case "left":
                break;
            case "token":
                giveToken(Identifier.fromString(w[1]), (long) (Double.parseDouble(w[2]) * 1000));
                break;
            default:
                throw new IllegalArgumentException("no such command: " + w[0]);
        }
        synchronized (RestServer.class) {
            Map<String, Object> r = new LinkedHashMap<>();
            r.put("ok", true);
            r.put("left", faults.stream().mapToInt(f -> f.left).sum());
            return json(r);
        }
    }

    static synchronized void add(Fault f) {
        faults.removeIf(o -> o.left == 0);
        faults.add(f);
    }

    static AuthProvider auth() {
        if (!options.containsKey("dlf-id")) {
            return new BearTokenAuthProvider(options.get("token"));
        }
        String region = options.get("dlf-region");
        DLFToken keys = new DLFToken(options.get("dlf-id"), options.get("dlf-secret"), options.get("dlf-session"), null);
        DLFDefaultSigner signer = new DLFDefaultSigner(region);
        return new DLFAuthProvider(null, keys, "", region, DLFDefaultSigner.IDENTIFIER) {
            @Override
            public Map<String, String> mergeAuthHeader(Map<String, String> sent, RESTAuthParameter what) {
                Map<String, String> all = new HashMap<>(sent);
                try {                                          // sign again what was sent, with the date that was sent; nothing to sign is a wrong signature
                    all.put("Authorization", sent.containsKey("x-dlf-date") ? signer.authorization(what, keys, "", sent) : "none");
                } catch (Exception e) {
                    all.put("Authorization", "none");
                }
                return all;
            }
        };
    }

    static Map<String, String> pairs(String name) {
        Map<String, String> m = new LinkedHashMap<>();
        Arrays.stream(options.getOrDefault(name, "").split("\n")).filter(x -> !x.isEmpty()).forEach(x -> m.put(x.split("=", 2)[0], x.split("=", 2)[1]));
        return m;
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 2) {
            options.put(args[i], args[i + 1]);
        }
        if (options.containsKey("log")) {
            log = new BufferedWriter(new FileWriter(options.get("log"), StandardCharsets.UTF_8, true));
        }
        tokenMillis = (long) (Double.parseDouble(options.getOrDefault("data-token", "0")) * 1000);
        Map<String, String> defaults = pairs("default"), overrides = pairs("override");
        defaults.put("prefix", options.get("prefix"));
        if (tokenMillis > 0) {
            overrides.put("data-token.enabled", "true");       // among the defaults it would turn file: into a scheme of Java's tests
        }
        RestServer server = new RestServer(options.get("data"), auth(), new ConfigResponse(defaults, overrides), options.get("warehouse"));
        server.start();
        Map<String, Object> ready = new LinkedHashMap<>();
        ready.put("uri", "http://127.0.0.1:" + URI.create(server.getUrl()).getPort());
        System.out.println(json(ready));
        System.out.flush();
        Thread clock = new Thread(() -> {
            try {
                Thread.sleep((long) (Double.parseDouble(options.get("limit")) * 1000));
            } catch (InterruptedException e) {
                return;
            }
            Runtime.getRuntime().halt(0);
        });
        clock.setDaemon(true);
        clock.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            if (!line.isBlank()) {
                try {
                    System.out.println(server.command(line));
                } catch (Exception e) {
                    System.out.println(json(Map.of("ok", false, "error", String.valueOf(e.getMessage()))));
                }
                System.out.flush();
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
