package main

import (
	_ "embed"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// workerJS is the pipeline and the agents handler as a JavaScript worker with
// everything in memory.
//
//go:embed worker.js
var workerJS string

const workerConfig = `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "main", worker = .main)],
  sockets = [(name = "http", address = "127.0.0.1:%d", http = (), service = "main")]
);

const main :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2025-01-01",
);
`

// workerKey is the key that the worker knows.
var workerKey = apikey.Mint(abi.EnvLive, new([apikey.RandomSize]byte))
