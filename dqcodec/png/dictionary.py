"""Preset dictionaries for deflate: what chunks of many files have in common. A part of the .dqc format.

TEXTS holds texts that many programs write. PROFILES precedes it with parts of colour profiles (ICC.1), XMP packets and
Exif: the names and numbers of sRGB (IEC 61966-2-1) and of other common colour spaces, in the layouts that common
programs write.
"""

import struct

TEXTS = b"".join(
    (
        b"Creation Time\0Description\0Copyright\0Disclaimer\0Warning\0Source\0Comment\0Created with GIMP\0Title\0Author\0",
        b'XML:com.adobe.xmp\0\0\0\0\0<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core',
        b'"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about="" ',
        b'xmlns:xmp="http://ns.adobe.com/xap/1.0/"></rdf:Description></rdf:RDF></x:xmpmeta>',
        b'<?xpacket end="r"?>CC Attribution-ShareAlike http://creativecommons.org/licenses/by-sa/4.0/',
        b"Raw profile type exif\0date:create\0date:modify\0T00:00:00+00:00\0Software\0Matplotlib version, https://matplotlib.org/",
        b"\x03\0\0z&\0\0\x80\x84\0\0\xfa\0\0\0\x80\xe8\0\0u0\0\0\xea`\0\0:\x98\0\0\x17p\x04\0\0\xb1\x8f\x05\0",
        b"\x09\0\0\x0e\xc4\0\0\x0e\xc4\x01\x09\0\0\x0b\x12\0\0\x0b\x12\x01\x09\0\0\x0b\x13\0\0\x0b\x13\x01",
        b"\x8b\x19Software\0Adobe ImageReady",
        b"\x07\x08\x08\x08\x08\x09\0\0\r\xd7\0\0\r\xd7\x01\x8b\x1aSoftware\0www.inkscape.org",
    )
)


def srgb_curve() -> bytes:
    """The curve of sRGB as a tag of ICC: `curv`, then 1024 values of 16 bits, exactly rounded on all machines."""
    values, full, below = [], 131070**5, (1055 * 1023) ** 12
    for step in range(1024):
        if 100000 * step <= 4045 * 1023:
            values.append((2 * 65535 * 100 * step + 1292 * 1023) // (2 * 1292 * 1023))
            continue
        # 65535 ((step / 1023 + 0.055) / 1.055) ^ 2.4: rounded in integers, from a value that is too small
        above = full * (1000 * step + 55 * 1023) ** 12
        value = int(65535 * ((1000 * step + 55 * 1023) / (1055 * 1023)) ** 2.4) - 1
        while (2 * value + 1) ** 5 * below <= above:
            value += 1
        values.append(value)
    return b"curv\0\0\0\0" + struct.pack(">I1024H", 1024, *values)


def _text(text: bytes) -> bytes:
    """A tag `desc`: a text, and its empty or missing translations."""
    return b"desc" + bytes(4) + struct.pack(">I", len(text) + 1) + text + bytes(11) + bytes([len(text) + 1]) + text


def _point(*numbers: int) -> bytes:
    """A tag `XYZ `: a colour in steps of 2^-16."""
    return b"XYZ " + bytes(4) + struct.pack(">3i", *numbers)


def _table(*tags: tuple[bytes, int, int]) -> bytes:
    """Entries of a profile's tag table: (name, offset, bytes)."""
    return b"".join(struct.pack(">4sII", *tag) for tag in tags)


_XMP = (
    b'<?xpacket begin="\xef\xbb\xbf" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'
    b'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmpMM="http://ns.adobe.com/xap/1.0/mm/" '
    b'xmlns:stRef="http://ns.adobe.com/xap/1.0/sType/ResourceRef#" '
    b'xmlns:stEvt="http://ns.adobe.com/xap/1.0/sType/ResourceEvent#" '
    b'xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" xmlns:tiff="http://ns.adobe.com/tiff/1.0/" '
    b'xmlns:exif="http://ns.adobe.com/exif/1.0/" xmlns:GIMP="http://www.gimp.org/xmp/" '
    b'xmpMM:InstanceID="xmp.iid:" xmpMM:DocumentID="xmp.did:" xmpMM:OriginalDocumentID="xmp.did:" '
    b'xmp:CreatorTool="Adobe Photoshop CC (Windows)" (Macintosh) dc:Format="image/png" '
    b'xmp:CreateDate="2020-01-01T00:00:00+00:00" xmp:ModifyDate="" xmp:MetadataDate="" photoshop:ColorMode="3" '
    b'photoshop:ICCProfile="sRGB IEC61966-2.1"> <xmpMM:History> <rdf:Seq> <rdf:li stEvt:action="saved" '
    b'stEvt:instanceID="xmp.iid:" stEvt:when="" stEvt:softwareAgent="GIMP 2.10 (Linux)" stEvt:changed="/"/> </rdf:Seq> '
    b"</xmpMM:History> <xmpMM:DerivedFrom </rdf:Alt> <tiff:Orientation>1</tiff:Orientation> <exif:ColorSpace>1</exif:ColorSpace> "
    b"<exif:PixelXDimension> <exif:PixelYDimension> <exif:UserComment>Screenshot</exif:UserComment>\n   "
)
_EXIF = (
    b"NIKON CORPORATION\0Canon\0OLYMPUS\0SONY\0Panasonic\0Apple\0Adobe Photoshop Lightroom\0PrintIM\x000300\0ASCII\0\0\0"
    b"0210\0R98\0\0100Exif\0\0MM\0*\0\0\0\x08II*\0\x08\0\0\0"
)
_OTHER_PROFILES = b"".join(
    (
        b"Copyright 2000 Adobe Systems Incorporated\0Adobe RGB (1998)\0Copyright Apple Inc., 2017Display P3\0Dot Gain 20%\0",
        b"Copyright International Color Consortium, 2009\0No copyright, use freely\0Public Domain\0Google Inc. 2016\0",
        b"mluc\0\0\0\0\0\0\0\x01\0\0\0\x0cenUS\0\0\0\x1a\0\0\0\x1c",
        "GIMP built-in sRGB\0sRGB built-in\0Public Domain\0sRGB IEC61966-2.1".encode("utf-16-be"),
        b"sf32\0\0\0\0\0\x01\x0cB\0\0\x05\xde\xff\xff\xf3%\0\0\x07\x93\0\0\xfd\x90\xff\xff\xfb\xa1\xff\xff\xfd\xa2\0\0\x03\xdc\0\0\xc0n",
        b"chrm\0\0\0\0\0\x03\0\0\0\0\xa3\xd7\0\0T|\0\0L\xcd\0\0\x99\x9a\0\0&g\0\0\x0f\\",
        b"para\0\0\0\0\0\x03\0\0\0\x02ff\0\0\xf2\xa7\0\0\rY\0\0\x13\xd0\0\0\n[",
        b"\x04\x30\0\0mntrRGB XYZ \0\x09\0acspAPPL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xf6\xd6\0\x01\0\0\0\0\xd3-lcms",
        b"chadrTRCgTRCbTRCchrm",
    )
)
_SRGB = b"".join(
    (
        b"\0\0\x0cHLino\x02\x10\0\0mntrRGB XYZ \x07\xce\0\x02\0\x09\0\x06\x001\0\0acspMSFT\0\0\0\0IEC sRGB",
        bytes(11) + b"\x01\0\0\xf6\xd6\0\x01\0\0\0\0\xd3-HP  ",
        bytes(47) + b"\x11",
        _table(
            (b"cprt", 336, 51), (b"desc", 388, 108), (b"wtpt", 496, 20), (b"bkpt", 516, 20), (b"rXYZ", 536, 20),
            (b"gXYZ", 556, 20), (b"bXYZ", 576, 20), (b"dmnd", 596, 112), (b"dmdd", 708, 136), (b"vued", 844, 134),
            (b"view", 980, 36), (b"lumi", 1016, 20), (b"meas", 1036, 36), (b"tech", 1072, 12), (b"rTRC", 1084, 2060),
            (b"gTRC", 1084, 2060), (b"bTRC", 1084, 2060),
        ),
        b"text\0\0\0\0Copyright (c) 1998 Hewlett-Packard Company\0\0",
        _text(b"sRGB IEC61966-2.1") + bytes(50),
        _point(62289, 65536, 71372) + _point(0, 0, 0),
        _point(28578, 14581, 912) + _point(25241, 46981, 6362) + _point(9376, 3972, 46799),
        _text(b"IEC http://www.iec.ch") + bytes(46),
        _text(b"IEC 61966-2.1 Default RGB colour space - sRGB") + bytes(22),
        _text(b"Reference Viewing Condition in IEC61966-2.1") + bytes(26),
        b"view\0\0\0\0\0\x13\xa4\xfe\0\x14_.\0\x10\xcf\x14\0\x03\xed\xcc\0\x04\x13\x0b\0\x03\\\x9e\0\0\0\x01",
        _point(4983126, 5242880, 5709799),
        b"meas\0\0\0\0\0\0\0\x01" + bytes(18) + b"\x02\x8f\0\0\0\x02sig \0\0\0\0CRT ",
    )
)  # fmt: skip
PROFILES = (
    _EXIF + _XMP + _OTHER_PROFILES + _SRGB + srgb_curve() + b"Photoshop ICC profile\0\0ICC profile\0\0icc\0\0" + TEXTS
)
