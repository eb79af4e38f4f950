import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.springframework.http.MediaType;
import org.springframework.http.client.ClientHttpRequestFactory;
import org.springframework.http.client.JdkClientHttpRequestFactory;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.web.client.RestClient;
import org.springframework.web.client.RestTemplate;
import org.springframework.http.HttpEntity;
import org.springframework.http.HttpHeaders;

/** Delivers once by each default way of Spring. Prints a line each: name and status. */
public class Spring {
    public static void main(String[] args) throws Exception {
        String url = args[0], key = args[1];
        Map<?, ?> body = new ObjectMapper().readValue(args[2], Map.class);
        send("RestClient", RestClient.create(), url, key, body);
        for (ClientHttpRequestFactory factory : new ClientHttpRequestFactory[] {new JdkClientHttpRequestFactory(), new SimpleClientHttpRequestFactory()}) {
            send("RestClient " + factory.getClass().getSimpleName(), RestClient.builder().requestFactory(factory).build(), url, key, body);
        }
        HttpHeaders headers = new HttpHeaders();
        headers.setBearerAuth(key);
        System.out.println("RestTemplate " + new RestTemplate().postForEntity(url, new HttpEntity<>(body, headers), String.class).getStatusCode().value());
    }

    private static void send(String name, RestClient client, String url, String key, Map<?, ?> body) {
        int status = client.post().uri(url).header("Authorization", "Bearer " + key).contentType(MediaType.APPLICATION_JSON).body(body)
            .retrieve().toBodilessEntity().getStatusCode().value();
        System.out.println(name + " " + status);
    }
}
