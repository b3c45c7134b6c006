// Command tunnel-peer is either end of Rancher's tunnel, for tests and benchmarks of ours.
//
//	tunnel-peer server [-tls-cert F -tls-key F] [-peer-id ID -peer-token T -peer URL,ID,T]
//	    takes sessions at /connect (the client's key is in the header X-Tunnel-Key) and forwards TCP: every connection to
//	    the forward port goes through the tunnel; its first line says "<client key> <address>", the rest is carried.
//	tunnel-peer client -url URL -key KEY
//	    keeps one session and dials whatever is wanted; a session that ends is begun again after a second.
//
// It prints what it listens on, "ready ...", and ends when its standard input does.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
	"github.com/sirupsen/logrus"
)

const keyHeader = "X-Tunnel-Key"

func main() {
	logrus.SetLevel(logrus.WarnLevel)
	if len(os.Args) < 2 {
		log.Fatal("usage: tunnel-peer server|client ...")
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	switch os.Args[1] {
	case "server":
		server(os.Args[2:])
	case "client":
		client(os.Args[2:])
	default:
		log.Fatalf("no mode %q", os.Args[1])
	}
}

func server(args []string) {
	flags := flag.NewFlagSet("server", flag.ExitOnError)
	cert := flags.String("tls-cert", "", "certificate")
	key := flags.String("tls-key", "", "its key")
	peerID := flags.String("peer-id", "", "who we are to peers")
	peerToken := flags.String("peer-token", "", "what proves it")
	peer := flags.String("peer", "", "another server: URL,ID,TOKEN")
	_ = flags.Parse(args)

	authorizer := func(req *http.Request) (string, bool, error) {
		key := req.Header.Get(keyHeader)
		return key, key != "", nil
	}
	tunnel := remotedialer.New(authorizer, remotedialer.DefaultErrorWriter)
	tunnel.PeerID, tunnel.PeerToken = *peerID, *peerToken
	if parts := strings.Split(*peer, ","); len(parts) == 3 {
		tunnel.AddPeer(parts[0], parts[1], parts[2])
	}

	listener := listen()
	forward := listen()
	go serveForward(tunnel, forward)
	fmt.Printf("ready connect=%s forward=%s\n", listener.Addr(), forward.Addr())
	mux := http.NewServeMux()
	mux.Handle("/connect", tunnel)
	web := &http.Server{Handler: mux}
	if *cert != "" {
		log.Fatal(web.ServeTLS(listener, *cert, *key))
	}
	log.Fatal(web.Serve(listener))
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func serveForward(tunnel *remotedialer.Server, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go forward(tunnel, conn)
	}
}

func forward(tunnel *remotedialer.Server, conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	words := strings.Fields(line)
	if len(words) != 2 {
		return
	}
	stream, err := tunnel.Dialer(words[0])(context.Background(), "tcp", words[1])
	if err != nil {
		log.Printf("dial: %v", err)
		return
	}
	defer stream.Close()
	// The tunnel knows no half-closed streams: the first end is the end of all.
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(stream, reader)
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(conn, stream)
		done <- struct{}{}
	}()
	<-done
}

func client(args []string) {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	url := flags.String("url", "", "the server")
	key := flags.String("key", "", "who we are")
	_ = flags.Parse(args)
	dialer := &websocket.Dialer{
		HandshakeTimeout: remotedialer.HandshakeTimeOut,
		TLSClientConfig:  &tls.Config{InsecureSkipVerify: true},
	}
	connected := func(context.Context, *remotedialer.Session) error {
		fmt.Println("ready connected")
		return nil
	}
	for {
		headers := http.Header{keyHeader: {*key}}
		allow := func(string, string) bool { return true }
		err := remotedialer.ConnectToProxy(context.Background(), *url, headers, allow, dialer, connected)
		log.Printf("the session ended: %v", err)
		time.Sleep(time.Second)
	}
}
