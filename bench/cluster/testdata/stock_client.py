"""Reads a spec's dataset through a fleet with nothing but pyarrow, and prints what came as JSON."""

import json
import sys

import pyarrow as pa
import pyarrow.flight as flight

master, spec, token = sys.argv[1:]
options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())])
info = flight.connect(f"grpc://{master}").get_flight_info(
    flight.FlightDescriptor.for_command(open(spec, "rb").read()), options
)
rows, labels, ids = 0, 0, 0
for endpoint in info.endpoints:
    for chunk in flight.connect(endpoint.locations[0]).do_get(endpoint.ticket, options):
        chunk.data.validate(full=True)
        rows += chunk.data.num_rows
        labels += sum(chunk.data["label"].to_pylist())
        ids += len(chunk.data["cat_0"].flatten())
        dense = chunk.data.schema.field("dense")
        assert chunk.app_metadata is not None
print(
    json.dumps(
        {
            "endpoints": len(info.endpoints),
            "total_records": info.total_records,
            "rows": rows,
            "labels": labels,
            "ids": ids,
            "dense": str(dense.type),
            "names": json.loads(dense.metadata[b"penstock.names"]),
        }
    )
)
