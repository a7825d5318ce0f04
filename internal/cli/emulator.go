package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"byline/internal/account"
	"byline/internal/console"
	"byline/internal/secret"
	"byline/internal/server"
	"byline/store/emulator"
)

// Emulator is the command emulator.
type Emulator struct {
	Listen            string        `name:"listen" default:"localhost:8081" help:"Address to listen on."`
	Data              string        `name:"data" default:"./data" env:"BYLINE_DATA" help:"Directory of the data and of the certificate, cert.pem."`
	HTTP              bool          `name:"http" help:"Plain HTTP instead of HTTPS."`
	Key               secret.Text   `name:"key" env:"BYLINE_EMULATOR_KEY" placeholder:"KEY" help:"Key of the account. Default: the well-known key of emulators."`
	RUs               int           `name:"rus" placeholder:"N" help:"Request units per second and physical partition; beyond them, 429. Default: no limit."`
	Partitions        int           `name:"partitions" default:"1" help:"Physical partitions of a new container, 1 to 256."`
	Sync              bool          `name:"sync" default:"true" negatable:"" help:"Acknowledge a write when it is on disk. --sync=false is for bulk loads: faster, but a crash may lose the last seconds of acknowledged writes. Each write stays atomic."`
	ReplicaLag        time.Duration `name:"replica-lag" placeholder:"DURATION" help:"Age of the state that reads see, unless their session token asks for a newer one. Default: reads see the newest state."`
	InsecurePublicKey bool          `name:"insecure-public-key" help:"Serve other machines although the key is the well-known one, which anybody knows."`
	ComputeListen     string        `name:"compute-listen" placeholder:"HOST:PORT" help:"Second address, which accepts item ids with any characters, as the compute gateway of the service does."`
	console.LogFlags

	listening Listening
}

func (c *Emulator) check() error {
	if c.Data == "" {
		return account.ErrNoData
	}
	for flag, address := range map[string]string{"--listen": c.Listen, "--compute-listen": c.ComputeListen} {
		if address != "" && c.Key == "" && !c.InsecurePublicKey && !account.Loopback(address) {
			return fmt.Errorf(
				"%s %s: other machines could read and write with the well-known key: set BYLINE_EMULATOR_KEY, or "+
					"--insecure-public-key", flag, address)
		}
	}
	if c.Partitions == 0 { // the engine would take its default
		return errors.New("--partitions 0: there can be 1 to 256")
	}
	return nil
}

// Run serves the embedded engine until ctx ends.
func (c *Emulator) Run(ctx context.Context, s console.Streams) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	engine, err := emulator.Open(c.Data,
		emulator.Options{Key: c.Key.Reveal(), Logger: s.Log, RUs: c.RUs, Partitions: c.Partitions, NoSync: !c.Sync,
			ReplicaLag: c.ReplicaLag})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	return c.serve(ctx, engine, listener, s.Log)
}

// serve serves an open engine until ctx ends.
func (c *Emulator) serve(
	ctx context.Context, engine *emulator.Engine, listener net.Listener, log *slog.Logger,
) (err error) {
	if !c.Sync {
		log.Warn("writes are acknowledged before they are on disk")
	}
	servers := map[net.Listener]http.Handler{listener: engine}
	if c.ComputeListen != "" {
		second, err := net.Listen("tcp", c.ComputeListen)
		if err != nil {
			return fmt.Errorf("--compute-listen: %w", err)
		}
		defer second.Close()
		servers[second] = engine.ComputeGateway()
	}
	secure, scheme := (*tls.Config)(nil), "http"
	if !c.HTTP {
		certificate, err := localCertificate(c.Data)
		if err != nil {
			return err
		}
		secure, scheme = &tls.Config{Certificates: []tls.Certificate{certificate}}, "https"
		log.Info("certificate", "where", filepath.Join(c.Data, certificateFile))
	}
	served := make(chan error, len(servers))
	var running []*http.Server
	for l, handler := range servers {
		// Handshakes fail with each client that does not trust the certificate: log them at DEBUG.
		errorLog := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
		s := &http.Server{Handler: handler, TLSConfig: secure, ErrorLog: errorLog,
			ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		running = append(running, s)
		go func() {
			if secure == nil {
				served <- s.Serve(l)
			} else {
				served <- s.ServeTLS(l, "", "")
			}
		}()
	}
	log.Info("data", "where", c.Data)
	if c.Key == "" {
		log.Info("key", "how", "the well-known key of Cosmos DB emulators")
	} else {
		log.Info("key", "how", "set by --key or BYLINE_EMULATOR_KEY")
	}
	log.Info("listening", "url", scheme+"://"+server.Address(c.Listen, listener.Addr())+"/", "address",
		listener.Addr().String())
	if c.listening != nil {
		c.listening(listener.Addr())
	}
	ended := 0
	select {
	case err = <-served:
		ended = 1
	case <-ctx.Done():
		log.Info("stopping")
	}
	err = errors.Join(err, server.Shutdown(ctx, log, running...))
	for ; ended < len(running); ended++ {
		if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
	}
	return err
}
