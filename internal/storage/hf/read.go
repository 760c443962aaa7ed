package hf

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/web"
)

const (
	// placeKept is how long a file is read from where the hub redirected to, without asking it: the signatures of such
	// URLs last longer.
	placeKept = 5 * time.Minute
	// placesBytes bounds what is remembered of that, and placeCost is what one takes beside its texts.
	placesBytes, placeCost = 4 << 20, 256
)

// found is where a file was found.
type found struct {
	url *url.URL
	at  time.Time
}

// ReadAt fills buf from offset. The URI names the commit, so that there is but one version.
func (c *Client) ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error {
	p, err := pinned(f.GetUri())
	if err != nil {
		return err
	}
	if known, ok := c.places.Get(f.GetUri()); ok && time.Since(known.at) < placeKept {
		nothing := func(*http.Response) error { return nil }
		err := c.web.Read(ctx, web.Request{URL: known.url}, buf, offset, f.GetSize(), nothing)
		var refused *web.StatusError
		if object.IsTransient(err) || !errors.As(err, &refused) {
			return err
		} // else it may have ended, and the hub knows another one
	}
	secret, err := c.token.Headers()
	if err != nil {
		return err
	}
	at := c.at("/datasets/"+p.repo+"/resolve/"+p.revision+"/", p.path)
	remember := func(resp *http.Response) error {
		if to := resp.Request.URL; to.Host != at.Host {
			size := len(f.GetUri()) + len(to.Path) + len(to.RawQuery) + placeCost
			c.places.Put(f.GetUri(), found{to, time.Now()}, int64(size))
		}
		return nil
	}
	err = c.web.Read(ctx, web.Request{URL: at, Secret: secret}, buf, offset, f.GetSize(), remember)
	return c.explain(p, err)
}
