#!/bin/sh
# What `make demo` does: a translator from nothing, in a few minutes.
set -eu
test -e sample || attendo sample sample
rm -rf runs/demo
attendo train sample/train.en sample/train.de --valid-source sample/valid.en --valid-target sample/valid.de \
    --minutes 4.5 --out runs/demo
echo
echo "Scores on the test set, whose combinations of words never occur in training:"
attendo evaluate runs/demo sample/test.en sample/test.de --quiet
echo
echo "Ten translations:"
head -n 10 sample/test.en | attendo translate runs/demo --quiet > runs/demo/ten.de
head -n 10 sample/test.en | paste -d '\n' - runs/demo/ten.de | sed 'n;s/^/    /'
rm runs/demo/ten.de
cat <<'END'

Now with your own files, a sentence and its translation on each line:
    attendo train mine.en mine.de
    attendo translate runs/en-de-1 --text "…"
How the training went: runs/demo/report.html. What the model is: attendo info runs/demo
END
