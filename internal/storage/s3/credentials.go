package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

var errNoCredentials = errors.New("no AWS credentials found")

// credentials returns the profile's credentials, and whether they renew themselves: variables stay as the process
// began.
func (p *Profile) credentials() (creds *credentials.Credentials, renewed bool, err error) {
	switch p.source() {
	case Anonymous:
		return credentials.NewStatic("", "", "", credentials.SignatureAnonymous), false, nil
	case FromEnv:
		access, secret := os.Getenv(p.AccessKeyEnv), os.Getenv(p.SecretKeyEnv)
		switch {
		case access == "":
			return nil, false, object.Unset("access_key_env")
		case secret == "":
			return nil, false, object.Unset("secret_key_env")
		}
		token := ""
		if p.SessionTokenEnv != "" {
			token = os.Getenv(p.SessionTokenEnv)
		}
		return credentials.NewStaticV4(access, secret, token), false, nil
	}
	shared := &credentials.FileAWSCredentials{Profile: p.AWSProfile}
	if p.AWSProfile != "" {
		c := chain{providers: []named{{"profile " + p.AWSProfile + " of the shared files", shared}}}
		return credentials.New(&renewing{chain: c, profile: p.AWSProfile}), true, nil
	}
	env := &credentials.EnvAWS{}
	if v, err := env.RetrieveWithCredContext(nil); err == nil && !v.SignerType.IsAnonymous() {
		return credentials.New(env), false, nil
	}
	c := chain{providers: []named{{"environment", env}, {"shared files", shared}}}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") != "true" || hasRole() {
		client := &http.Client{Timeout: 5 * time.Second, Transport: bounded{http.DefaultTransport}}
		c.providers = append(c.providers, named{"role", &credentials.IAM{Client: client, Region: p.Region}})
	}
	return credentials.New(&renewing{chain: c, profile: firstSet(os.Getenv("AWS_PROFILE"), "default")}), true, nil
}

// hasRole reports whether the environment names a web identity or a container's role.
func hasRole() bool {
	return firstSet(os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")) != ""
}

type named struct {
	name string
	credentials.Provider
}

// chain asks providers in turn and takes the first that has credentials. Unlike minio-go's it fails if none has:
// requests without a signature would only be refused, with a message that misleads.
type chain struct {
	providers []named
	found     bool // once
}

func (c *chain) retrieve(cc *credentials.CredContext) (credentials.Value, error) {
	var why []string // as text: a shared file that is missing is no file of the dataset that is gone
	for _, p := range c.providers {
		v, err := p.RetrieveWithCredContext(cc)
		switch {
		case err != nil:
			why = append(why, fmt.Sprintf("%s: %v", p.name, err))
		case v.AccessKeyID == "" || v.SecretAccessKey == "":
			why = append(why, p.name+": none")
		default:
			c.found = true
			return v, nil
		}
	}
	err := object.Ours(fmt.Errorf("%w; set them up or use a profile with credentials: anonymous: %s",
		errNoCredentials, strings.Join(why, "; ")))
	if c.found || hasRole() {
		return credentials.Value{}, object.Transient(err) // the service that renews them may come back
	}
	return credentials.Value{}, err
}

const (
	patience   = 30 * time.Second // with a credential_process
	renewAgain = 5 * time.Second  // after a renewal that failed
	// Credentials that do not say when they end may be replaced: they are read again after freshFor, and used for
	// keptFor if they cannot be read any more.
	freshFor = time.Minute
	keptFor  = 5 * time.Minute
)

// renewing keeps the credentials of a chain, and renews them in the background while they can still be used.
// minio-go's Credentials serialises the calls by a mutex that every request takes, so none may wait for ever, as a
// credential_process can.
type renewing struct {
	chain   chain  // of the goroutine that retrieves, of which there is one at most
	profile string // of the shared files

	value  credentials.Value
	due    time.Time      // when value is renewed
	ends   time.Time      // when it can be used no more
	coming chan retrieved // what is being retrieved, or nil
	asked  time.Time      // since when
}

type retrieved struct {
	value credentials.Value
	err   error
	at    time.Time
}

// IsExpired reports whether it is time to renew the credentials.
func (r *renewing) IsExpired() bool { return !time.Now().Before(r.due) }

// Retrieve is for the interface.
func (r *renewing) Retrieve() (credentials.Value, error) {
	return r.RetrieveWithCredContext(&credentials.CredContext{Client: http.DefaultClient})
}

// RetrieveWithCredContext is called when IsExpired, and after Credentials.Expire.
func (r *renewing) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	if !r.IsExpired() { // the service refuses them
		r.due, r.ends = time.Time{}, time.Time{}
	}
	select {
	case got := <-r.coming:
		_ = r.take(got) // why it failed some time ago does not matter: it is tried again
	default:
	}
	if r.coming == nil && r.IsExpired() {
		r.start(cc)
	}
	if time.Now().Before(r.ends) {
		return r.value, nil
	}
	select {
	case got := <-r.coming:
		if err := r.take(got); err != nil {
			return credentials.Value{}, err
		}
		return r.value, nil
	case <-time.After(time.Until(r.asked.Add(patience))):
		return credentials.Value{},
			object.Transient(object.Ours(
				fmt.Errorf("credential_process of profile %s does not answer; it was waited for %s",
					r.profile, patience)))
	}
}

func (r *renewing) start(cc *credentials.CredContext) {
	coming := make(chan retrieved, 1)
	r.coming, r.asked = coming, time.Now()
	go func() {
		// Of its own, as a request may be given up that others wait for as well. What goes by HTTP ends before
		// patience.
		ctx, cancel := context.WithTimeout(context.Background(), patience/2)
		defer cancel()
		v, err := r.chain.retrieve(&credentials.CredContext{Client: cc.Client, Endpoint: cc.Endpoint, Context: ctx})
		coming <- retrieved{v, err, time.Now()}
	}()
}

func (r *renewing) take(got retrieved) error {
	r.coming = nil
	again := time.Now().Add(renewAgain)
	switch life := got.value.Expiration.Sub(got.at); {
	case got.err != nil:
		if again.Before(r.ends) {
			r.due = again
		}
	case got.value.Expiration.IsZero():
		r.value, r.due, r.ends = got.value, got.at.Add(freshFor), got.at.Add(keptFor)
	default:
		r.value, r.due, r.ends = got.value, got.at.Add(life/5*4), got.value.Expiration
	}
	return got.err
}
