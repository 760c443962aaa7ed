# docker build -f deploy/kubernetes/example/train.Dockerfile -t penstock-trainer:dev .
FROM python:3.12-slim
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu
# Without Go here the package comes without the penstock binary; the fleet's image has it, of the same release.
COPY client/python /src
RUN pip install --no-cache-dir /src
COPY --from=penstock:dev /usr/bin/penstock /usr/bin/penstock
USER 65532:65532
