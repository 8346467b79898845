# SPDX-License-Identifier: Apache-2.0
"""What the public headers declare, for the checks in this folder."""
import os
import re

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..'))


def public_headers(root=ROOT):
    """Paths of all public headers, relative to include/."""
    top = os.path.join(root, 'include')
    found = []
    for folder, _, names in os.walk(top):
        found += [os.path.relpath(os.path.join(folder, n), top) for n in names if n.endswith('.h')]
    return sorted(found)


def blank_comments(text):
    """Comments replaced by blanks, line structure kept."""
    return re.sub(r'/\*.*?\*/|//[^\n]*', lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text, flags=re.S)


def normalize(declaration):
    """A declaration in one spelling: without our attributes, single blanks, none around punctuation."""
    declaration = re.sub(r'\bMOYAI_(API|MUST_USE)\b|\bMOYAI_PRINTF\s*\([^)]*\)|\bextern\b', ' ', declaration)
    tokens = re.findall(r'\w+|\.\.\.|[^\s\w]', declaration)
    text = ' '.join(tokens)
    text = re.sub(r'\s*([()\[\],;*])\s*', r'\1', text)
    return text.rstrip(';')


def functions(root=ROOT):
    """Public functions: name -> (header, line, normalized declaration)."""
    found = {}
    for header in public_headers(root):
        with open(os.path.join(root, 'include', header)) as f:
            text = blank_comments(f.read())
        for match in re.finditer(r'^MOYAI_API\b([^;{]*);', text, re.M):
            declaration = match.group(0)
            # The name is followed by the parameter list; attributes such as MOYAI_PRINTF(3, 4) are not it.
            name = re.search(r'\b(moyai_\w+)\s*\(', declaration)
            if name:
                line = text.count('\n', 0, match.start()) + 1
                found[name.group(1)] = (header, line, normalize(declaration))
    return found
