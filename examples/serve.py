"""Serves a model over HTTP, by the spec that it was trained with: POST a JSON list of rows, and get a score for each.

    python examples/serve.py --spec spec.yaml --schema data/part-00000.parquet --model weights.npy

The model is a linear one over the dense features. Put yours in place of `scores`.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import penstock

MAX_BYTES = 1 << 20  # of a request


def scores(batch: penstock.Batch, weights: np.ndarray[Any, Any]) -> list[float]:
    logits = np.nan_to_num(batch.dense) @ weights[1:] + weights[0]
    result: list[float] = (1 / (1 + np.exp(-logits))).tolist()
    return result


class Handler(BaseHTTPRequestHandler):
    transforms: penstock.Transforms
    weights: np.ndarray[Any, Any]

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        if size > MAX_BYTES:
            return self.answer(413, {"error": f"{size} bytes; a request may have {MAX_BYTES}"})
        try:
            batch = self.transforms(json.loads(self.rfile.read(size)))
        except (ValueError, penstock.errors.DataError, penstock.errors.UsageError) as err:  # of the rows
            return self.answer(400, {"error": str(err)})
        return self.answer(200, {"scores": scores(batch, self.weights)})

    def answer(self, status: int, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--schema", required=True, help="a file of the training's data")
    parser.add_argument("--model", required=True, help="a bias and a weight for each dense feature, by numpy.save")
    parser.add_argument("--port", type=int, default=8080, help="0: any that is free")
    given = parser.parse_args()
    Handler.weights = np.load(given.model)
    transforms = penstock.Transforms(given.spec, schema=given.schema, format="numpy")
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
    with transforms as Handler.transforms, server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
