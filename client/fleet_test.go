package client

import (
	"log/slog"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// config is of a trainer in a network of fakes.
func config(fl *fake.Net, masters ...string) Config {
	return Config{
		Masters: masters, Dial: fl.Dial, Session: "run-1/train", Spec: &pb.Spec{BatchSize: 1},
		Logger: slog.New(slog.DiscardHandler),
	}
}
