# docker build -t attendo .
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" attendo train train.en train.de
#
# docker build --target serve -t attendo-serve .
# docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/runs/en-de-1:/bundles/en-de-1:ro" attendo-serve /bundles/en-de-1
FROM python:3.11 AS built
WORKDIR /opt/attendo
COPY pyproject.toml README.md LICENSE ./
COPY attendo ./attendo
# Here is the C compiler that attendo's own kernels and engine are built with.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /opt/wheels .

FROM python:3.11-slim AS installed
COPY --from=built /opt/wheels /opt/wheels
COPY constraints.txt /opt/
# Without a GPU, name a package index that has torch's CPU build here: the image becomes many times smaller.
ARG PIP_OPTIONS=""
RUN pip install --no-cache-dir $PIP_OPTIONS -c /opt/constraints.txt /opt/wheels/*.whl
RUN useradd --create-home attendo
USER attendo

FROM installed AS serve
WORKDIR /bundles
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["attendo", "serve", "--host", "0.0.0.0", "--port", "8000"]

FROM installed AS attendo
WORKDIR /data
ENTRYPOINT ["attendo"]
