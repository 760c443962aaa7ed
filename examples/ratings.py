"""Ratings of movies, with what was known of each movie at the time of the rating.

    python ratings.py --work /tmp/ratings

It makes ratings as MovieLens has them, and a table beside them: after each day, how each movie has been rated so far. A
rating is joined with the newest row before it, so that nothing of the future leaks into training. It fits vocabularies
and normalisation, trains a linear model in NumPy, and serves the last ratings by the same spec, which is pinned: with
another table, or another fitted file, it would be refused.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pyarrow as pa
import pyarrow.parquet as pq

DAY = 86_400_000  # ms
DAYS, USERS, MOVIES = 60, 300, 120
BEGIN = 1_700_000_000_000 // DAY * DAY


def make(work: Path, ratings: int = 20_000, seed: int = 1) -> tuple[Path, Path]:
    """Writes ratings, in the order of their time, and the table of what was known after each day."""
    r = np.random.default_rng(seed)
    user = r.zipf(1.3, ratings) % USERS
    movie = r.zipf(1.2, ratings) % MOVIES
    at = np.sort(BEGIN + r.integers(0, DAYS * DAY, ratings))
    taste, quality = r.normal(0, 0.5, USERS), r.normal(0, 1, MOVIES)
    rating = np.clip(np.round(3.5 + quality[movie] + taste[user] + r.normal(0, 0.7, ratings)), 1, 5).astype(np.float32)
    time = pa.array(at, pa.timestamp("ms"))
    folder = work / "ratings"
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"user": user, "movie": movie, "at": time, "rating": rating})
    pq.write_table(table, folder / "part-0.parquet", row_group_size=2000)

    rows: dict[str, list[Any]] = {"movie_id": [], "known_at": [], "mean": [], "count": []}
    count, total = np.zeros(MOVIES, np.int64), np.zeros(MOVIES)
    for day in range(1, DAYS):
        today = (at >= BEGIN + (day - 1) * DAY) & (at < BEGIN + day * DAY)
        np.add.at(count, movie[today], 1)
        np.add.at(total, movie[today], rating[today])
        for m in np.unique(movie[today]):
            rows["movie_id"].append(m)
            rows["known_at"].append(BEGIN + day * DAY)
            rows["mean"].append(total[m] / count[m])
            rows["count"].append(count[m])
    movies = pa.table({
        "movie_id": pa.array(rows["movie_id"], pa.int64()), "known_at": pa.array(rows["known_at"], pa.timestamp("ms")),
        "mean": pa.array(rows["mean"], pa.float32()), "count": pa.array(rows["count"], pa.int64()),
    })  # fmt: skip
    pq.write_table(movies, work / "movies.parquet")
    return folder, work / "movies.parquet"


def transforms_of(movies: Path) -> list[penstock.Transform]:
    return [
        penstock.lookup(["movie", "at"], movies, ["mean", "count"], key="movie_id", as_of="known_at", out="movie_{}"),
        penstock.fill_null("movie_count", 0),
        penstock.fill_null("movie_mean", penstock.Fit("mean")),
        penstock.log1p("movie_count"),
        penstock.scale_to_z_score(["movie_mean", "movie_count"], of="fit"),
        penstock.map_id(["user", "movie"], vocabulary="fit", min_count=5),
    ]


FEATURES = penstock.label("rating") + penstock.dense(["movie_mean", "movie_count"]) + penstock.sparse(["user", "movie"])


class Model:
    """A linear regression: a weight for each dense feature, and for each user and movie."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.bias, self.dense = 3.0, np.zeros(2, np.float32)
        self.ids = {name: np.zeros(size, np.float32) for name, size in sizes.items()}

    def ratings(self, batch: penstock.Batch) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = batch.dense @ self.dense + np.float32(self.bias)
        for name, weights in self.ids.items():
            found = found + weights[batch.sparse[name].values]
        return found

    def step(self, batch: penstock.Batch, rate: float = 0.05) -> float:
        """A step of gradient descent. It returns the mean squared error before it."""
        error = self.ratings(batch) - batch.label
        self.bias -= rate * float(error.mean())
        self.dense -= rate * (batch.dense.T @ error) / len(error)
        for name, weights in self.ids.items():
            np.subtract.at(weights, batch.sparse[name].values, 0.2 * rate * error)
        return float((error**2).mean())


def main(work: Path, epochs: int = 3) -> dict[str, float]:
    data, movies = make(work)
    transforms = transforms_of(movies)
    split = f"at < {BEGIN + 50 * DAY}"  # train on what came before
    fitted = penstock.fit(data, transforms=transforms, filter=split, out=work / "ratings.fitted.parquet")
    sizes = {s.of: 2 + s.size for s in fitted.statistics if s.size is not None}
    options: dict[str, Any] = {"transforms": transforms, "features": FEATURES, "fitted": fitted, "format": "numpy"}

    model, errors = Model(sizes), []
    with penstock.DataLoader(data, filter=split, shuffle=True, epochs=epochs, batch_size=100, **options) as loader:
        for _ in range(epochs):
            errors.append(float(np.mean([model.step(batch) for batch in loader])))
        (work / "ratings.pinned.yaml").write_text(loader.pinned_spec())  # is kept with the model
    with penstock.DataLoader(
        data, filter=f"not {split}", epochs=1, batch_size=500, order="deterministic", name="later", **options
    ) as loader:
        later = list(loader)
    validation = float(np.mean([((model.ratings(b) - b.label) ** 2).mean() for b in later]))
    print(f"squared error {errors[0]:.3f} to {errors[-1]:.3f}, {validation:.3f} on later ratings")

    rows = pq.read_table(data)
    rows = rows.filter(pa.compute.greater_equal(rows["at"].cast(pa.int64()), BEGIN + 50 * DAY)).drop_columns(["rating"])
    schema = pq.read_schema(data / "part-0.parquet")
    with penstock.Transforms(work / "ratings.pinned.yaml", schema=schema) as serve:
        served = serve(rows)
    trained = np.concatenate([batch.dense for batch in later])
    differences = int((trained != served.dense).any(axis=1).sum())
    for name in ("user", "movie"):
        ids = np.concatenate([batch.sparse[name].values for batch in later])
        differences += int((ids != served.sparse[name].values).sum())
    print(f"{differences} of {len(trained)} rows differ in serving")
    return {"first": errors[0], "last": errors[-1], "validation": validation, "differences": differences}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, type=Path, help="folder for what it makes")
    main(parser.parse_args().work)
