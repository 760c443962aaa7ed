package master

import (
	"context"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/store"
)

// Loaded is how many sessions this master has taken up, as the leader.
func (m *Master) Loaded() int { return len(m.leading().all()) }

// Panic has a command of a session of the default namespace panic, after which the session is loaded again.
func (m *Master) Panic(ctx context.Context, id string) error {
	r, err := m.leading().find(store.NameOf(identity.DefaultNamespace, id))
	if err != nil {
		return err
	}
	_, err = r.do(ctx, call{command: broken{}})
	return err
}

// DeleteCode deletes the code that no running session has, whenever it was used last.
func (m *Master) DeleteCode() error { return m.leading().deleteCode(time.Now().Add(time.Hour)) }

// PutCode keeps a part of code, as if that were at another time.
func (m *Master) PutCode(ctx context.Context, namespace string, p *pb.CodePart, at time.Time) error {
	return m.cfg.Store.PutCode(ctx, m.leading().leadership, namespace, p, at)
}

// ForgetIndexes has the indexes be lost that are kept in memory.
func (m *Master) ForgetIndexes() { m.indexes.known.kept.Shrink(indexBytes) }

// KeepIndexes has all indexes be kept in etcd, however soon they are made.
func (m *Master) KeepIndexes() { m.indexes.worth = 0 }

// IndexStored is when a file's index was written to etcd.
func (m *Master) IndexStored(uri string, x *index.Index) time.Time {
	when, _ := m.indexes.stored.Get(indexKey{uri: uri, of: x.Of})
	return when
}

// DamageIndex changes a byte of a file's index in etcd.
func (m *Master) DamageIndex(ctx context.Context, uri string, x *index.Index) error {
	name := indexKey{uri: uri, of: x.Of}.name()
	data, err := m.cfg.Store.Index(ctx, m.leading().leadership, name)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return m.cfg.Store.PutIndex(ctx, m.leading().leadership, name, data)
}
