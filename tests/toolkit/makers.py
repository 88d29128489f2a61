"""Real files for the tests, most of them written by hand: what libraries refuse to write must be read all the same."""

from __future__ import annotations

import base64
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import xlsxwriter  # type: ignore[import-untyped]

OLD_BOOK = base64.b85decode(
    """
c-
rk)O=uHQ5dPj~xB0R8X`2eI5JJJKH3g*?5u3GQtruhUqKIHq6G7S}B}6bDv|4i#LGYw_Db$0PsuzDyL2n{LMGt}?Bzp8DD0pbI&YSGkCbrN(Ek
yPUZ{EClZ}v@Q=Kbuxn`<dfKkO`_22nUrHr!}hA`?{HRwDrFHw?*IwTp^jqoLq-
Q6QT%JoCPF${5Ocm!RN*`idy<g~~}xAeKod!|RBBY(rc~8~TMxxu@U`6(2g-u2!a}nYJ;#&tso6-
OG~eO#5kUQJlb>9_!g<=J9c*i~D>;1s=1`Czk9)J6_8?zH~!W#%dVIo{f(;SVu^0#tbN=L&<b9E8BkDg$KwJdQ++1M52fwg?k1+jWF=TTGubbw
tRi%0wn)cEqAUUcTo^)<u?@-n1nGRWHJ}vMMRZ78U|AnxqJZ|FrrC;1Bb^G^XP-dy#Ni1#ZyUI^8=~Oxpd9}?2qT25Mec{?ooHB2i4s~DYMRd<
lfJFMWAZ0@bU_3CYpes`4(PB0Wx*|-
uL&1Mu+uNESco<p@PlQWEi+CHAvZ4bNckK#&)Jx_^F$i?_?Sz<Eic*Za0|&Q#|G>_jc1feT)zKmL>dF;tSu7JP8%P>f4B)9V%T2&VJOV(M6|Pg
7oEY3K0<zw{J;2)va2X`^{&j9e?dTQKc1+BttvTAFQ3v#EL$1EYe2vnM(<nwj1X4!jA>^8OR?Jm6r65SZpb#ucWqEMq9A9^v4UDU$FMIHhEs0d
83e~)KmC5)p`o+Ne^FCJZ4NnR%EeUWNp~6VZ(+E8#Wpfg6~3=8>DK!7RWoQ)BLWpK&5PdCi!o16dC&E=#_F1X{xix*OfmTp$Y3*VwF19_d<zdG
<z0f7-c)g>ds$!#}G^Z&#DyzYqx~zoxfa<o&R|L-_f)H>H
""".replace("\n", "")
)
"""A deflated xls file: sheet `Empty`, then `Old` with Name, Amount, Day and two rows."""

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def make_book(path: Path, **sheets: Sequence[Sequence[Any]]) -> Path:
    """An xlsx file with these sheets; None is an empty cell."""
    book = xlsxwriter.Workbook(str(path), {"strings_to_formulas": False, "strings_to_urls": False})
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for number, row in enumerate(rows):
            for column, value in enumerate(row):
                form = day if hasattr(value, "isoformat") else None
                sheet.write(number, column, value, form)
    book.close()
    return path


def make_raw_book(path: Path, sheet_xml: Iterable[bytes]) -> Path:
    """An xlsx file whose only sheet is exactly this XML inside `<sheetData>`."""
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{_RELATION}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATION}"><sheets>'
        '<sheet name="Raw" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{_RELATION}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as part:
            part.write(f'<worksheet xmlns="{_MAIN}"><sheetData>'.encode())
            part.writelines(sheet_xml)
            part.write(b"</sheetData></worksheet>")
    return path


def raw_rows(count: int, columns: str = "ABCDE") -> Iterator[bytes]:
    """`count` rows of numbers as sheet XML."""
    for row in range(1, count + 1):
        cells = "".join(f'<c r="{column}{row}"><v>{row}</v></c>' for column in columns)
        yield f'<row r="{row}">{cells}</row>'.encode()


def make_ods(path: Path, tables: str, manifest: str = "") -> Path:
    """An OpenDocument spreadsheet with these `<table:table>` elements."""
    office = "urn:oasis:names:tc:opendocument:xmlns:"
    names = "".join(f' xmlns:{short}="{office}{short}:1.0"' for short in ("office", "table", "text"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet", zipfile.ZIP_STORED)
        archive.writestr("META-INF/manifest.xml", f'<manifest xmlns="{office}manifest:1.0">{manifest}</manifest>')
        archive.writestr(
            "content.xml",
            f"<office:document-content{names}><office:body><office:spreadsheet>{tables}"
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return path


def ods_text(text: str) -> str:
    return f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'


def make_xls(path: Path) -> Path:
    path.write_bytes(zlib.decompress(OLD_BOOK))
    return path


def make_encrypted(path: Path) -> Path:
    """The outer form of a workbook with a password: a compound file with the two streams that mark it."""
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16)
    header += struct.pack("<HHHHH6xIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    header += struct.pack("<109I", 0, *[0xFFFFFFFF] * 108)
    table = struct.pack("<128I", 0xFFFFFFFD, 0xFFFFFFFE, *[0xFFFFFFFF] * 126)
    names = (("Root Entry", 5), ("EncryptionInfo", 2), ("EncryptedPackage", 2), ("", 0))
    entries = (_entry(name, kind) for name, kind in names)
    path.write_bytes(header.ljust(512, b"\0") + table + b"".join(entries))
    return path


def _entry(name: str, kind: int) -> bytes:
    text = name.encode("utf-16-le")
    return struct.pack("<64sHBBIII36xIQ", text, len(text) + 2, kind, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0)
