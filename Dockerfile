# One image for every process of docker-compose.yml: workers, beat, Flower, and the schema.
#
# NOT BUILT BY THE TESTS, which have no Docker. They check that what it installs and copies is there.
#
# Your orchestrators: build an image on top of this one, and name them.
#
#   FROM turnchain
#   COPY shop /app/shop
#   ENV TURNCHAIN_ORCHESTRATORS=shop.support:support

FROM python:3.13-slim

RUN useradd --create-home --uid 10001 turnchain

RUN --mount=type=bind,target=/src,rw \
    pip install --no-cache-dir --disable-pip-version-check '/src[worker,flower]'

# What is copied here is found by workers: Celery looks in the directory that it is started in.
WORKDIR /app

# At a place that does not change with the version of Python, for docker-compose.yml to name.
RUN ln -s "$(python -c 'from importlib.resources import files; print(files("turnchain.workers") / "flowerconfig.py")')" \
    /app/flowerconfig.py

ENV PYTHONUNBUFFERED=1
USER turnchain
CMD ["turnchain", "--help"]
