package dashboard

import "testing"

func TestViewersGoOnIfOneOfThemPanics(t *testing.T) {
	var r round
	m, mine := r.take(1, whatFor{}, 8)
	other, both := r.take(1, whatFor{}, 8)
	if !mine || both || other != m {
		t.Fatalf("the first has to make the message: %v; the second: %v, another: %v", mine, both, other != m)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone, and the log will not tell of it")
			}
		}()
		m.by(func() message { panic("a bug") })
	}()
	<-other.done
	if other.err == nil {
		t.Error("who waited is told nothing")
	}
}
