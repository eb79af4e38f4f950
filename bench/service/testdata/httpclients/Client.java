import java.io.ByteArrayInputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;

/** Delivers once by each default way of the JDK's clients. Prints a line each: name and status. */
public class Client {
    private static String url, key, body;

    public static void main(String[] args) throws Exception {
        url = args[0];
        key = args[1];
        body = args[2];
        byClient("HttpClient text", BodyPublishers.ofString(body), false, HttpClient.Version.HTTP_2);
        byClient("HttpClient stream", BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(bytes())), false, HttpClient.Version.HTTP_2);
        byClient("HttpClient 1.1 stream", BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(bytes())), false, HttpClient.Version.HTTP_1_1);
        byClient("HttpClient expect", BodyPublishers.ofString(body), true, HttpClient.Version.HTTP_1_1);
        byConnection("HttpURLConnection", c -> {});
        byConnection("HttpURLConnection chunked", c -> c.setChunkedStreamingMode(0));
        byConnection("HttpURLConnection expect", c -> {
            c.setRequestProperty("Expect", "100-Continue");
            c.setFixedLengthStreamingMode(bytes().length);
        });
    }

    private static byte[] bytes() {
        return body.getBytes(StandardCharsets.UTF_8);
    }

    private static void byClient(String name, BodyPublisher published, boolean expect, HttpClient.Version version) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).header("Authorization", "Bearer " + key)
            .header("Content-Type", "application/json").expectContinue(expect).version(version).POST(published).build();
        System.out.println(name + " " + HttpClient.newHttpClient().send(request, BodyHandlers.ofString()).statusCode());
    }

    private interface Setting {
        void apply(HttpURLConnection c) throws Exception;
    }

    private static void byConnection(String name, Setting setting) throws Exception {
        HttpURLConnection c = (HttpURLConnection) URI.create(url).toURL().openConnection();
        c.setRequestMethod("POST");
        c.setDoOutput(true);
        c.setRequestProperty("Authorization", "Bearer " + key);
        c.setRequestProperty("Content-Type", "application/json");
        setting.apply(c);
        try (OutputStream out = c.getOutputStream()) {
            out.write(bytes());
        }
        System.out.println(name + " " + c.getResponseCode());
    }
}
