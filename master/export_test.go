package master

import (
	"context"
	"time"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/store"
)

// CloseAfter has sessions that all have left between two epochs closed earlier. It is called before Run.
func (m *Master) CloseAfter(d time.Duration) { m.closeAfter = d }

// Panic has a command of a session of the default namespace panic, after which the session is loaded again.
func (m *Master) Panic(ctx context.Context, id string) error {
	r, err := m.leading().find(store.NameOf(identity.DefaultNamespace, id))
	if err != nil {
		return err
	}
	_, err = r.do(ctx, call{command: broken{}})
	return err
}
