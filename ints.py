# patch: write int32 values, then change the schema's converted type by pyarrow? use duckdb/pyarrow reading a file whose logical type is planted
import pyarrow as pa, pyarrow.parquet as pq, struct
vals=[0,1,300,-1,-129,127,128,65535,70000,255,256]
# write as uint8 logical through a file with int32 physical: craft by replacing the footer of an int32 file with one of a int8 file of the same shape
def footer(b):
    n=struct.unpack("<I",b[-8:-4])[0]; return b[-8-n:-8]
import io
def make(kind):
    def w(t):
        o=io.BytesIO(); pq.write_table(pa.table({"x":pa.array([0]*len(vals) if t!=pa.int32() else vals,t)}),o,use_dictionary=False,compression="none",write_statistics=False,store_schema=False); return o.getvalue()
    a,b=w(pa.int32()),w(kind)
    fa,fb=footer(a),footer(b)
    assert len(a)-len(fa)==len(b)-len(fb),(len(a),len(fa),len(b),len(fb))
    return a[:len(a)-8-len(fa)]+fb+struct.pack("<I",len(fb))+b"PAR1"
import duckdb
for kind in (pa.int8(),pa.uint8(),pa.int16(),pa.uint16()):
    d=make(kind); p=f"/tmp/parquet/{kind}.parquet"; open(p,"wb").write(d)
    print(kind,"pyarrow",pq.read_table(p)["x"].to_pylist())
    try: print(kind,"duckdb ",[r[0] for r in duckdb.sql(f"select x from '{p}'").fetchall()])
    except Exception as e: print(kind,"duckdb ",e)
    try: print(kind,"duckdb sum",duckdb.sql(f"select x from '{p}' where x>200").fetchall())
    except Exception as e: print(kind,"duckdb ",e)
try:
    import polars; print(polars.__version__, polars.read_parquet("/tmp/parquet/uint8.parquet"))
except Exception as e: print(e)
