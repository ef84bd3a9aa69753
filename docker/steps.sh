#!/bin/sh
# Steps of the server images, run in the root of the repository. The Dockerfiles run them, and so
# does `make image-steps` on a machine without a container engine.
#
#   sh docker/steps.sh install FOLDER    create a virtual environment with the server
#   sh docker/steps.sh kernels FOLDER    compile its CPU kernels, for all CPUs of this machine type
#   sh docker/steps.sh check FOLDER      start the server as in a container, query it and stop it
set -eu
folder=$2
case $1 in
install)
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
    -c constraints.txt ".[${ELMO_EXTRAS:-serve}]"
  # Tests and C++ headers of PyTorch (150 MB) and pip are not needed to run the server.
  packages=$("$folder/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
  rm -rf "$packages/torch/test" "$packages/torch/include"
  "$folder/bin/python" -m pip uninstall --quiet --yes pip
  ;;
kernels)
  "$folder/bin/python" -m elmo.kernels.prebuilt_libraries "$folder/kernels"
  ;;
check)
  python3 docker/check_server.py "$folder"
  ;;
*)
  echo "unknown step: $1" >&2
  exit 2
  ;;
esac
