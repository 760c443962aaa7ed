package s3

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// scripted gives credentials as scripted.
type scripted struct {
	credentials.Provider
	calls    int
	retrieve func(call int) (credentials.Value, error)
}

func (s *scripted) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	s.calls++
	return s.retrieve(s.calls)
}

func scriptedCredentials(retrieve func(call int) (credentials.Value, error)) (*credentials.Credentials, *scripted) {
	s := &scripted{retrieve: retrieve}
	return credentials.New(&renewing{chain: chain{providers: []named{{"script", s}}}, profile: "lab"}), s
}

// key is the credentials of the nth call, which end after a time, or do not say when.
func key(n int, life time.Duration) credentials.Value {
	v := credentials.Value{AccessKeyID: strings.Repeat("K", n), SecretAccessKey: "s"}
	if life != 0 {
		v.Expiration = time.Now().Add(life)
	}
	return v
}

// expect gets credentials, of the call that is wanted, without waiting.
func expect(t *testing.T, c *credentials.Credentials, want int) {
	t.Helper()
	begun := time.Now()
	v, err := c.GetWithContext(nil)
	if err != nil || len(v.AccessKeyID) != want {
		t.Errorf("key %q, %v; want that of call %d", v.AccessKeyID, err, want)
	}
	if d := time.Since(begun); d != 0 {
		t.Errorf("it was waited for %s", d)
	}
	synctest.Wait() // for a renewal in the background
}

// A credential_process that does not end holds nobody for ever, and is not started again.
func TestStuckProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c, s := scriptedCredentials(func(int) (credentials.Value, error) { <-release; return key(1, time.Hour), nil })
		for i, want := range []time.Duration{patience, 0, 0} {
			begun := time.Now()
			_, err := c.GetWithContext(nil)
			if !object.IsTransient(err) ||
				!strings.Contains(err.Error(), "credential_process of profile lab does not answer") {
				t.Errorf("error %v, want a transient one that names the profile", err)
			}
			if d := time.Since(begun); d != want {
				t.Errorf("call %d took %s, want %s", i, d, want)
			}
		}
		close(release)
		synctest.Wait()
		expect(t, c, 1)
		if s.calls != 1 {
			t.Errorf("%d processes were started", s.calls)
		}
	})
}

// Credentials that do not say when they end are not read for each request.
func TestEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scriptedCredentials(func(call int) (credentials.Value, error) { return key(call, 0), nil })
		for range 10 {
			expect(t, c, 1)
		}
		time.Sleep(freshFor)
		expect(t, c, 1) // and it is read again meanwhile
		expect(t, c, 2)
		c.Expire()
		expect(t, c, 3)
		time.Sleep(freshFor)
		expect(t, c, 3)
		time.Sleep(time.Hour) // what was read an hour ago may have been replaced
		expect(t, c, 5)
		if s.calls != 5 {
			t.Errorf("%d calls, want 5", s.calls)
		}
	})
}

// Credentials are renewed before they end, and used to their end if that fails.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errGone := errors.New("gone")
		c, s := scriptedCredentials(func(call int) (credentials.Value, error) {
			if call == 2 || call == 3 || call == 4 {
				return credentials.Value{}, errGone
			}
			return key(call, 100*time.Minute), nil
		})
		for _, step := range []struct {
			after       time.Duration
			want, calls int
		}{
			{0, 1, 1},
			{79 * time.Minute, 1, 1},
			{time.Minute, 1, 2}, // it fails
			{time.Second, 1, 2},
			{time.Second, 1, 2},
			{renewAgain, 1, 3}, // again
			{0, 1, 3},
		} {
			time.Sleep(step.after)
			expect(t, c, step.want)
			if s.calls != step.calls {
				t.Fatalf("%+v: %d calls", step, s.calls)
			}
		}
		time.Sleep(20 * time.Minute)
		if v, err := c.GetWithContext(nil); !object.IsTransient(err) || !strings.Contains(err.Error(), "gone") {
			t.Errorf("after their end: %q, error %v", v.AccessKeyID, err)
		}
		expect(t, c, 5)
	})
}
