#!/bin/sh
# check_torch.sh BUILD: makes the golden values afresh with PyTorch, compares them with the kept ones, and runs the tests
# that read them.  TORCH=python names another python that has PyTorch.
python=${TORCH:-/usr/bin/python3}
"$python" -c 'import torch' 2>/dev/null || {
	echo "check-torch needs PyTorch, and $python has none: OPTIONAL=torch make deps, or TORCH=python that has it"
	exit 1
}
fresh=$1/golden
mkdir -p "$fresh" && rm -f "$fresh"/*.bin || exit 1
for script in tests/golden_gpt2.py tests/golden_llama.py tests/golden_resnet.py; do
	"$python" "$script" "$fresh" || exit 1
done
"$python" tests/golden_file.py tests/data "$fresh" && "$1"/tests/test_kernels_golden
