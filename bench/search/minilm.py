#!/usr/bin/env python3
"""Serves all-MiniLM-L6-v2 as an OpenAI-compatible service for `cargo xtask search`.

Usage: minilm.py MODEL, a folder with `model.safetensors` and `tokenizer.json`. Prints its address on stderr. Only
POST /v1/embeddings is served, on the loopback interface.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

FOLDER = sys.argv[1]
LAYERS, HEADS, WIDTH = 6, 12, 384
MOST_TOKENS = 128

weights = {name: value.astype(np.float32) for name, value in load_file(os.path.join(FOLDER, "model.safetensors")).items()}
tokenizer = Tokenizer.from_file(os.path.join(FOLDER, "tokenizer.json"))
tokenizer.enable_truncation(MOST_TOKENS)
tokenizer.enable_padding()
turn = threading.Lock()


def linear(x, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(x, name):
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def attention(x, mask, name):
    batch, length, _ = x.shape
    heads = lambda part: linear(x, f"{name}.self.{part}").reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)
    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(WIDTH / HEADS) + (mask[:, None, None, :] - 1) * 1e9
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    return (scores @ value).transpose(0, 2, 1, 3).reshape(batch, length, WIDTH)


def embed(texts):
    """Vectors of length one: the means of the last layer over the tokens."""
    tokens = tokenizer.encode_batch(texts)
    ids = np.array([text.ids for text in tokens])
    mask = np.array([text.attention_mask for text in tokens], np.float32)
    words = weights["embeddings.word_embeddings.weight"][ids]
    places = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = norm(words + places + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        out = linear(attention(x, mask, f"{name}.attention"), f"{name}.attention.output.dense")
        x = norm(x + out, f"{name}.attention.output.LayerNorm")
        out = linear(gelu(linear(x, f"{name}.intermediate.dense")), f"{name}.output.dense")
        x = norm(x + out, f"{name}.output.LayerNorm")
    means = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def embed_in_order(texts):
    """Texts of like length are encoded together, since all of a batch are as long as its longest."""
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    vectors = [None] * len(texts)
    for start in range(0, len(order), 8):
        part = order[start : start + 8]
        for at, vector in zip(part, embed([texts[at] for at in part])):
            vectors[at] = vector.tolist()
    return vectors


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = request["input"]
        with turn:
            vectors = embed_in_order([texts] if isinstance(texts, str) else texts)
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        answer = json.dumps({"object": "list", "data": data, "model": request.get("model")}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
server.serve_forever()
