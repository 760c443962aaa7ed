package ticket_test

import (
	"crypto/ed25519"
	"errors"
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
)

var now = time.Unix(1_800_000_000, 0)

// key is a key pair that depends on nothing but n.
func key(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

// request is a good one, signed by key 1 and valid for an hour.
func request(t testing.TB) *pb.StreamRequest {
	t.Helper()
	program, err := proto.Marshal(&pb.Program{Storage: "default", Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	text, err := ticket.NewSigner(key(1)).Sign(&pb.Ticket{
		Session: "run-7", Shard: 3, ProgramDigest: []byte(ticket.Digest(program)),
		ExpiresUnix: now.Add(time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	signed := &pb.SignedTicket{}
	if err := proto.Unmarshal(text, signed); err != nil {
		t.Fatal(err)
	}
	return &pb.StreamRequest{Ticket: signed, Program: program}
}

func TestVerify(t *testing.T) {
	keys := ticket.NewSigner(key(1)).Keys()
	maps.Copy(keys, ticket.NewSigner(key(2)).Keys())
	got, err := ticket.Verify(request(t), keys, now)
	if err != nil || got.GetSession() != "run-7" || got.GetShard() != 3 {
		t.Fatalf("%v %v", got, err)
	}
	for _, c := range []struct {
		name   string
		change func(r *pb.StreamRequest)
		keys   map[string][]byte
		at     time.Time
		want   error
	}{
		{name: "expired", at: now.Add(time.Hour), want: ticket.ErrExpired},
		{name: "unknown key", keys: ticket.NewSigner(key(2)).Keys(), want: ticket.ErrUnknownKey},
		{name: "another key's name", change: func(r *pb.StreamRequest) {
			r.Ticket.Key = ticket.KeyName(key(2).Public().(ed25519.PublicKey))
		}, want: ticket.ErrSignature},
		{
			name: "a bit of the ticket", change: func(r *pb.StreamRequest) { r.Ticket.Ticket[5] ^= 1 },
			want: ticket.ErrSignature,
		},
		{
			name: "a bit of the signature", change: func(r *pb.StreamRequest) { r.Ticket.Signature[0] ^= 1 },
			want: ticket.ErrSignature,
		},
		{
			name: "no signature", change: func(r *pb.StreamRequest) { r.Ticket.Signature = nil },
			want: ticket.ErrSignature,
		},
		{name: "no ticket", change: func(r *pb.StreamRequest) { r.Ticket = nil }, want: ticket.ErrUnknownKey},
		{
			name: "another program", change: func(r *pb.StreamRequest) { r.Program = append(r.Program, 0) },
			want: ticket.ErrProgram,
		},
		{
			name: "a key of a wrong length",
			keys: map[string][]byte{ticket.KeyName(key(1).Public().(ed25519.PublicKey)): {1}},
			want: ticket.ErrUnknownKey,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(t)
			if c.change != nil {
				c.change(r)
			}
			if c.keys == nil {
				c.keys = keys
			}
			if c.at.IsZero() {
				c.at = now
			}
			if _, err := ticket.Verify(r, c.keys, c.at); !errors.Is(err, c.want) {
				t.Errorf("%v; want %v", err, c.want)
			}
		})
	}
}

// FuzzVerify holds that nothing but what was signed passes.
func FuzzVerify(f *testing.F) {
	good := request(f)
	text, err := proto.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte{})
	keys := ticket.NewSigner(key(1)).Keys()
	f.Fuzz(func(t *testing.T, text []byte) {
		var r pb.StreamRequest
		if proto.Unmarshal(text, &r) != nil {
			return
		}
		if _, err := ticket.Verify(&r, keys, now); err == nil &&
			(string(r.GetTicket().GetTicket()) != string(good.GetTicket().GetTicket()) ||
				string(r.GetProgram()) != string(good.GetProgram())) {
			t.Errorf("a forged request passes: %v", &r)
		}
	})
}
