package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"muniment.example/gateway/client"
)

var (
	ctx = context.Background()
	c   *client.Client
)

func ExampleNew() {
	c, err := client.New(client.Config{URL: "https://muniment.example", Key: os.Getenv("MUNIMENT_API_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	_ = c
}

func ExampleClient_Deliver() {
	got, err := c.Deliver(ctx, client.Delivery{
		RightID: "rgh_01M7Y45MG0YQ2E2D8Z1V5K3T9B", SpatialAnchorID: "dash-1", DwellMs: 8200,
		Telemetry: client.Telemetry{SpeedMph: new(0.0)},
	})
	var e *client.Error
	switch {
	case err == nil:
		// The receipt is durable. Keep it: it proves the delivery to anyone.
		_ = os.WriteFile("receipt.json", client.ReceiptFile(&got.Receipt, &got.Signature), 0o600)
	case errors.Is(err, client.ErrPrecondition) && errors.As(err, &e):
		for _, v := range e.Violations {
			fmt.Println(v.Code, v.Message)
		}
	case errors.Is(err, client.ErrUnavailable) && errors.As(err, &e):
		fmt.Println("call again with the key", e.IdempotencyKey)
	}
}

func ExampleBuffer() {
	buffer, err := client.OpenBuffer("/var/lib/player/plays", client.BufferConfig{
		Client:  c,
		Refused: func(r client.Row, why *client.Error) { log.Print(r.RowID, " is not delivered: ", why) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer buffer.Close()
	go func() { log.Print(buffer.Run(ctx)) }()
	err = buffer.Add(ctx, client.Delivery{RightID: "rgh_01M7Y45MG0YQ2E2D8Z1V5K3T9B", SpatialAnchorID: "screen-7", DwellMs: 8200})
	if errors.Is(err, client.ErrBufferFull) {
		log.Print("the play is lost: too many wait")
	}
}

func ExampleRights_List() {
	for right, err := range c.Rights().List(ctx, client.RightFilter{State: "ACTIVE"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(right.ID, right.Substrate)
	}
}

func ExampleVerifyWebhook() {
	http.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("webhook-challenge", r.Header.Get("webhook-challenge"))
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20))
		if err != nil {
			return
		}
		m, err := client.VerifyWebhook(client.WebhookKeys{Secrets: []string{os.Getenv("WEBHOOK_SECRET")}}, r.Header, body, time.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Println(m.WebhookID, m.Type, len(m.Events))
	})
}
