package python

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// protocol is what both ends must speak: penstock._op_child has the same number.
const protocol = 2

const (
	maxMessage  = 1 << 20
	sendTimeout = 10 * time.Second // a process that waits for a request takes it at once
)

// What a worker asks, and what is answered.
const (
	askLoad = "load" // the code, in the file, or functions by name: loaded, differs, failed
	askList = "list" // what functions by name are: listed, absent, stale, failed
	askMake = "make" // a function of it: made, failed
	askCall = "call" // a function: on, need, done, raised
	askRoom = "room" // goes on with a call that said need; of 0 bytes: ends it without an answer

	sayHello   = "hello" // first of all
	sayLoaded  = "loaded"
	sayDiffers = "differs" // the environment is not that of the session
	sayListed  = "listed"
	sayAbsent  = "absent" // a function
	sayStale   = "stale"  // files have changed since they were imported
	sayMade    = "made"
	sayFailed  = "failed"
	sayNeed    = "need"
	sayOn      = "on" // it goes on with a part of the rows, which has all of a call's time
	sayDone    = "done"
	sayRaised  = "raised"
)

// request is what a worker asks. Its files go with it, in the order of its fields: of load the code, of call and room
// the segments that have a size.
type request struct {
	Kind string `json:"kind"`
	// Number is in all answers to it; askRoom has that of its call.
	Number uint64 `json:"number"`

	Code int `json:"code,omitempty"` // bytes of it
	// The environment that it is of.
	Python        string   `json:"python,omitempty"`
	Distributions []string `json:"distributions,omitempty"`

	// Functions by name: of load with their digests. Without any, list is of all in the modules that are listed.
	Calls   []string `json:"calls,omitempty"`
	Digests [][]byte `json:"digests,omitempty"`
	Modules []string `json:"modules,omitempty"` // that they may be of

	Function int    `json:"function"` // by the order in which they were made
	Index    uint32 `json:"index"`    // in the code
	Name     string `json:"name,omitempty"`
	// By name: what is called, with arguments, each a Value.
	Call  string                     `json:"call,omitempty"`
	Args  map[string]json.RawMessage `json:"args,omitempty"`
	Style string                     `json:"style,omitempty"`
	Ins   []form                     `json:"ins,omitempty"`
	Outs  []form                     `json:"outs,omitempty"`
	Makes string                     `json:"makes,omitempty"` // which rows: a map, if it is not said
	Most  uint32                     `json:"most,omitempty"`  // of a flat_map, for each row
	Rng   bool                       `json:"rng,omitempty"`   // each call has a column of seeds, behind the inputs

	Rows   int     `json:"rows"`
	Skip   int     `json:"skip,omitempty"`   // how many of them may fail by themselves; more is said of the next one
	Places []int64 `json:"places,omitempty"` // of the inputs: see places
	In     int     `json:"in,omitempty"`     // a new segment of so many bytes takes the place of the one there was
	Out    int     `json:"out,omitempty"`
}

// form is the type of an input or a result, as the process knows it.
type form struct {
	Kind   string  `json:"kind"`
	List   bool    `json:"list"`
	Nested int     `json:"nested"`
	Shape  []int32 `json:"shape"`
	Text   bool    `json:"text"`
}

// answer is what a process says. Nothing of it is trusted.
type answer struct {
	Kind   string `json:"kind"`
	Number uint64 `json:"number"`

	Protocol int    `json:"protocol"`
	Python   string `json:"python"`
	PyArrow  string `json:"pyarrow"`

	Identity  json.RawMessage   `json:"identity"`  // of functions by name: a Code
	Functions []json.RawMessage `json:"functions"` // MarkedFunctions

	Bytes  int64   `json:"bytes"`  // needed for results
	Places []int64 `json:"places"` // of the results; of what is no map, before them the place of their parents
	Rows   int     `json:"rows"`   // of the results
	Kept   bool    `json:"kept"`   // something of the inputs is still in use: they must stay as they are
	Nanos  int64   `json:"ns"`     // the function's own time
	Failed []raise `json:"failed"` // rows of which there are no results, ascending; the first ones have words

	raise
	Own bool `json:"own"` // the row's values make it so
}

// raise is an exception.
type raise struct {
	Type      string `json:"type"` // of the exception; "": the function's results are not as they were declared
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	Row       *int   `json:"row"` // of the inputs, at which it failed, if that is known
}

// exception is an exception as it stands in messages.
func (a *raise) exception() string {
	switch {
	case a.Type == "":
		return a.Message
	case a.Message == "":
		return a.Type
	}
	return a.Type + ": " + a.Message
}

// send sends a request with files.
func send(conn *net.UnixConn, r *request, files ...int) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > maxMessage {
		return fmt.Errorf("a %s of %d bytes, where there may be %d: are these very many columns?",
			r.Kind, len(body), maxMessage)
	}
	frame := append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	n, _, err := conn.WriteMsgUnix(frame, rights, nil)
	if err == nil && n < len(frame) {
		_, err = conn.Write(frame[n:])
	}
	return err
}

// receive reads an answer. io.EOF: there is no further one.
func receive(from io.Reader) (*answer, error) {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxMessage {
		return nil, fmt.Errorf("an answer of %d bytes; there may be %d", n, maxMessage)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	a := &answer{}
	if err := json.Unmarshal(body, a); err != nil {
		return nil, fmt.Errorf("an answer that is none: %w", err)
	}
	return a, nil
}
