import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.WebSocket;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/** Asks by way of java.net.http, which is told nothing: what it needs to know are properties of its JVM. */
public final class WithHttpClient {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create(arguments[1]);
        switch (arguments[0]) {
            case "get", "stream" -> show(HttpRequest.newBuilder(uri));
            case "put" -> show(HttpRequest.newBuilder(uri).PUT(BodyPublishers.ofFile(Path.of(arguments[2]))));
            case "websocket" -> talk(uri);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void show(HttpRequest.Builder request) throws IOException, InterruptedException {
        HttpResponse<InputStream> answer = CLIENT.send(request.build(), BodyHandlers.ofInputStream());
        if (answer.statusCode() / 100 != 2) {
            // There is no reason phrase in this API.
            System.err.println(answer.statusCode() + " " + answer.headers().firstValue("egress-denied").orElse(""));
            System.exit(1);
        }
        answer.body().transferTo(System.out);
        System.out.flush();
    }

    /** Says a line and shows the one that comes back. */
    private static void talk(URI uri) {
        CompletableFuture<String> echo = new CompletableFuture<>();
        WebSocket socket = CLIENT.newWebSocketBuilder().buildAsync(uri, new Ear(echo)).join();
        socket.sendText("hello from the sandbox", true).join();
        System.out.println(echo.join());
        socket.sendClose(WebSocket.NORMAL_CLOSURE, "").join();
    }

    private record Ear(CompletableFuture<String> echo) implements WebSocket.Listener {
        @Override
        public CompletionStage<?> onText(WebSocket from, CharSequence text, boolean last) {
            echo.complete(text.toString());
            return null;
        }

        @Override
        public void onError(WebSocket from, Throwable error) {
            echo.completeExceptionally(error);
        }
    }
}
