package master

import (
	"context"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/store"
)

// Panic has a command of a session of the default namespace panic, after which the session is loaded again.
func (m *Master) Panic(ctx context.Context, id string) error {
	r, err := m.leading().find(store.NameOf(identity.DefaultNamespace, id))
	if err != nil {
		return err
	}
	_, err = r.do(ctx, call{command: broken{}})
	return err
}
