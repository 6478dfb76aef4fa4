"""Prints a line a test of a JUnit file: its name and result."""

import sys
import xml.etree.ElementTree

try:
    root = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
except (OSError, xml.etree.ElementTree.ParseError) as error:
    print(f"no results: {error}")
    sys.exit(1)
for case in root.iter("testcase"):
    outcomes = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    result = outcomes[0] if outcomes else case.get("result", "completed")
    print(case.get("classname", ""), case.get("name"), "ok" if result == "completed" else result)
