import java.io.IOException;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;

/** Asks by way of HttpURLConnection, on which many older libraries stand; it is told nothing. */
public final class WithUrlConnection {
    public static void main(String[] arguments) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) URI.create(arguments[1]).toURL().openConnection();
        if (arguments[0].equals("put")) {
            put(connection, Path.of(arguments[2]));
        }
        if (connection.getResponseCode() / 100 != 2) {
            System.err.println(connection.getResponseCode() + " " + connection.getResponseMessage());
            System.exit(1);
        }
        connection.getInputStream().transferTo(System.out);
        System.out.flush();
    }

    private static void put(HttpURLConnection connection, Path file) throws IOException {
        connection.setRequestMethod("PUT");
        connection.setDoOutput(true);
        // Without a length it would keep all of the body until it is complete.
        connection.setFixedLengthStreamingMode(Files.size(file));
        try (OutputStream out = connection.getOutputStream()) {
            Files.copy(file, out);
        }
    }
}
