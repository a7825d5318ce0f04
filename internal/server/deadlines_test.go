package server

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// timedPipe returns a connection with deadlines, and its other end.
func timedPipe(t *testing.T) (c *timedConn, other net.Conn) {
	near, far := net.Pipe()
	c = new(deadlines).add(near)
	t.Cleanup(func() {
		c.Close()
		far.Close()
	})
	return c, far
}

func TestDeadlines_Pass(t *testing.T) {
	for name, end := range map[string]struct {
		set func(*timedConn, time.Time) error
		use func(*timedConn, []byte) (int, error)
	}{
		"reading": {(*timedConn).SetReadDeadline, (*timedConn).Read},
		"writing": {(*timedConn).SetWriteDeadline, (*timedConn).Write},
		"both":    {(*timedConn).SetDeadline, (*timedConn).Write},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := timedPipe(t)
				if err := errors.Join(end.set(c, time.Now().Add(time.Second)), end.set(c, time.Now().Add(10*time.Second))); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err := end.use(c, make([]byte, 1))
				if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took < 10*time.Second || took > 10*time.Second+deadlineTick {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

func TestDeadlines_InThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := timedPipe(t)
		read := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil { // as net/http does
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		go other.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("with a later deadline: %v", err)
		}
	})
}

func TestDeadlines_ConnectionsAfterOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadlines
		for range 2 {
			near, far := net.Pipe()
			c := d.add(near)
			if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			c.Close()
			far.Close()
			<-time.After(2 * deadlineTick)
			d.mu.Lock()
			if d.conns != nil {
				t.Error("it goes on without connections")
			}
			d.mu.Unlock()
		}
	})
}
