# SPDX-License-Identifier: Apache-2.0
"""Figures beside what was asked of them."""


class Bars:
    def __init__(self):
        self.rows = []

    def add(self, name, figure, limit, at_least=True, unit="x"):
        met = bool(figure >= limit if at_least else figure <= limit) if figure == figure else None
        self.rows.append({"bar": name, "measured": figure, "limit": limit, "at_least": at_least, "unit": unit, "met": met})

    def print(self):
        print("\nbars")
        for row in self.rows:
            verdict = {True: "met", False: "MISSED", None: "not measured"}[row["met"]]
            sign = ">=" if row["at_least"] else "<="
            print(f"  {row['bar']:66} {row['measured']:>9.3f} {sign} {row['limit']:g} {row['unit']:6} {verdict}")
