"""PFIO's HTTPCache and fsspec, as they are, on a bucket: clients.py URL TOKEN_FILE."""

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import fsspec
from pfio.cache import HTTPCache

url, token_file = sys.argv[1:]
with open(token_file) as f:
    token = f.read()

# PFIO
samples = [os.urandom(1000 * i) for i in range(40)]
cache = HTTPCache(len(samples), url + "/samples/", bearer_token_path=token_file)
with ThreadPoolExecutor(8) as pool:
    assert list(pool.map(cache.get, range(40))) == [None] * 40
    assert all(pool.map(lambda i: cache.put(i, samples[i]), range(40)))
    assert all(pool.map(lambda i: cache.put(i, samples[i]), range(40))), "the same again"
    assert list(pool.map(cache.get, range(40))) == samples
assert cache.put(1, b"others") is False
assert cache.get(1) == samples[1]
child = os.fork()
if child == 0:
    os._exit(0 if cache.get(2) == samples[2] else 1)
assert os.waitpid(child, 0)[1] == 0

objects = HTTPCache(2, url + "/objects", bearer_token_path=token_file, do_pickle=True)
assert objects.put(0, {"x": [1, 2.5, "ü"]})
assert objects.get(0) == {"x": [1, 2.5, "ü"]} and objects.get(1) is None

os.environ["PFIO_HTTP_BEARER_TOKEN_PATH"] = token_file
assert HTTPCache(40, url + "/samples").get(3) == samples[3]

# fsspec
fs = fsspec.filesystem("http", client_kwargs={"headers": {"Authorization": "Bearer " + token}})
assert fs.cat_file(url + "/samples/7") == samples[7]
assert fs.cat_file(url + "/samples/7", start=10, end=20) == samples[7][10:20]
assert fs.info(url + "/samples/7")["size"] == 7000
assert not fs.exists(url + "/samples/absent")
with fs.open(url + "/samples/39", block_size=4096) as f:
    f.seek(20_000)
    assert f.read(5000) == samples[39][20_000:25_000]
with tempfile.NamedTemporaryFile() as local:
    local.write(samples[30])
    local.flush()
    fs.put_file(local.name, url + "/from a file", method="put")
assert fs.cat_file(url + "/from a file") == samples[30]
