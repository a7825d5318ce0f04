package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// deadlineTick is how late deadlines of connections may be.
const deadlineTick = 500 * time.Millisecond

// deadlines ends reads and writes of connections whose deadlines have passed, all in one go. net/http
// sets eight deadlines for each request, nearly all of which are replaced at once: timers for them take
// a tenth of the CPU of a cached response. The zero value has no connections.
type deadlines struct {
	checked atomic.Int64 // when it last looked, in Unix nanoseconds

	mu    sync.Mutex
	conns map[*timedConn]bool // guarded by mu; nil while no check is scheduled
}

// add returns a connection with deadlines of d, until it is closed.
func (d *deadlines) add(c net.Conn) *timedConn {
	t := &timedConn{Conn: c, of: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		d.conns = map[*timedConn]bool{}
		d.schedule()
	}
	d.conns[t] = true
	return t
}

func (d *deadlines) remove(c *timedConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

func (d *deadlines) schedule() {
	d.checked.Store(time.Now().UnixNano())
	time.AfterFunc(deadlineTick, d.check)
}

// check lets deadlines pass, and goes on as long as there are connections.
func (d *deadlines) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.conns) == 0 {
		d.conns = nil
		return
	}
	now := time.Now()
	for c := range d.conns {
		c.check(now)
	}
	d.schedule()
}

// timedConn is a connection whose deadlines are those of of.
type timedConn struct {
	net.Conn
	of *deadlines

	mu          sync.Mutex
	read, write deadline // guarded by mu
}

// deadline is a deadline of a connection, which itself has it only if it has passed.
type deadline struct {
	at     time.Time // zero: none
	passed bool
}

// Close implements net.Conn.
func (c *timedConn) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *timedConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read.set(t, c.of.checked.Load(), c.Conn.SetReadDeadline)
}

// SetWriteDeadline implements net.Conn.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write.set(t, c.of.checked.Load(), c.Conn.SetWriteDeadline)
}

// set replaces a deadline, which has passed if it is before a time in Unix nanoseconds: a later one does at
// the next check.
func (d *deadline) set(t time.Time, now int64, of func(time.Time) error) error {
	d.at = t
	passed := !t.IsZero() && t.UnixNano() <= now
	if passed == d.passed {
		return nil
	}
	d.passed = passed
	if !passed {
		t = time.Time{}
	}
	return of(t)
}

// check lets deadlines pass that are not after now.
func (c *timedConn) check(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read.check(now, c.Conn.SetReadDeadline)
	c.write.check(now, c.Conn.SetWriteDeadline)
}

func (d *deadline) check(now time.Time, of func(time.Time) error) {
	if !d.passed && !d.at.IsZero() && !d.at.After(now) {
		d.passed = true
		_ = of(d.at) // fails only if the connection is closed
	}
}
