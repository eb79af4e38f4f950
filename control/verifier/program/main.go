// Command program compiles muniment-verify for browsers into its own folder, which package verifier embeds: the program,
// compressed, and the Go distribution's file that starts one. The
// same sources and toolchain make the same bytes. make build and a release run it.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run("control/verifier/program"); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}

// run is to be started in the top folder.
func run(folder string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("cannot find the Go distribution: %w", err)
	}
	starter, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	compiled, err := os.MkdirTemp("", "verifier-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(compiled)
	program := filepath.Join(compiled, "muniment-verify.wasm")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./sealer/verify/muniment-verify")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWASM=")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("cannot compile muniment-verify for browsers: %w", err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	to, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := to.Write(text); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	if err := replace(filepath.Join(folder, "wasm_exec.js"), starter); err != nil {
		return err
	}
	return replace(filepath.Join(folder, "muniment-verify.wasm.gz"), packed.Bytes())
}

// replace writes a file, unless it has that text: what embeds it is then not compiled again.
func replace(name string, text []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return os.WriteFile(name, text, 0o644)
}
