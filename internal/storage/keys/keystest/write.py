"""Writes the same table as a plain file and, by pyarrow, encrypted in several ways: write.py FOLDER SERVICE."""

import base64
import json
import sys
import urllib.request

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

folder, service = sys.argv[1:]


def call(path, body):
    request = urllib.request.Request(service + path, json.dumps(body).encode(), {"X-Vault-Token": "t0ken"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["data"]["ciphertext"]


class Client(pe.KmsClient):
    """Has keys wrapped by one of the ways of the service."""

    def __init__(self, config):
        pe.KmsClient.__init__(self)
        self.way = config.custom_kms_conf["way"]

    def wrap_key(self, key_bytes, master_key_identifier):
        plaintext = base64.b64encode(key_bytes).decode()
        return call(f"/v1/{self.way}/encrypt/{master_key_identifier}", {"plaintext": plaintext})

    def unwrap_key(self, wrapped_key, master_key_identifier):
        raise NotImplementedError


n = 3000
table = pa.table({
    "id": pa.array(range(n), pa.int64()),
    "price": pa.array([None if i % 7 == 0 else i / 8 for i in range(n)], pa.float32()),
    "ids": pa.array([None if i % 11 == 0 else list(range(i % 4)) for i in range(n)], pa.list_(pa.int64())),
    "text": pa.array([f"text {i % 50}" for i in range(n)], pa.string()),
})
layout = dict(row_group_size=1000, data_page_size=400, write_batch_size=100, write_page_index=True)
pq.write_table(table, folder + "/plain.parquet", **layout)

columns = dict(footer_key="footer", column_keys={"prices": ["price", "ids.list.element"], "texts": ["text"]})
for name, (way, config, options) in {
    "uniform": ("local", dict(footer_key="footer", uniform_encryption=True), {}),
    "uniform_plaintext": ("local", dict(footer_key="footer", uniform_encryption=True, plaintext_footer=True), {}),
    "columns": ("local", columns, {}),
    "columns_plaintext": ("local", dict(columns, plaintext_footer=True), dict(compression="zstd", data_page_version="2.0")),
    "ctr": ("local", dict(columns, encryption_algorithm="AES_GCM_CTR_V1"), dict(write_page_checksum=True)),
    "ctr_plaintext": ("local", dict(columns, encryption_algorithm="AES_GCM_CTR_V1", plaintext_footer=True), dict(compression="none")),
    "single": ("local", dict(columns, double_wrapping=False, data_key_length_bits=256), dict(use_dictionary=False)),
    "wrapped": ("wrapped", dict(columns, double_wrapping=False), dict(write_page_checksum=True, data_page_version="2.0")),
    "vault": ("transit", columns, {}),
    "vault_single": ("transit", dict(columns, double_wrapping=False, plaintext_footer=True), {}),
}.items():
    factory = pe.CryptoFactory(Client)
    connection = pe.KmsConnectionConfig(custom_kms_conf={"way": way})
    properties = factory.file_encryption_properties(connection, pe.EncryptionConfiguration(**config))
    pq.write_table(table, f"{folder}/{name}.parquet", encryption_properties=properties, **(layout | options))

for name, options in {
    "prefix": dict(aad_prefix=b"prices of May"),
    "prefix_outside": dict(aad_prefix=b"prices of May", store_aad_prefix=False),
    "nameless_plaintext": dict(plaintext_footer=True),
}.items():
    properties = pe.create_encryption_properties(b"0123456789abcdef", **options)
    pq.write_table(table, f"{folder}/{name}.parquet", encryption_properties=properties, **layout)
