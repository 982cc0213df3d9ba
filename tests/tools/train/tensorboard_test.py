#!/usr/bin/env python3
"""The files of `sluice train --tensorboard DIR`, by a reader of their format that shares nothing with the writer.

Usage: tensorboard_test.py PATH-TO-SLUICE"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

SLUICE = os.path.abspath(sys.argv.pop(1))
RUN = ('--layers 2 --dim 16 --heads 2 --seq 16 --stages 2 --micro-batch-size 2 --micro-batches 2 --eval-micro-batches 1 '
       '--no-pin --steps 6').split()
# What pictures show each kind of action in.
COLOURS = {'F': bytes([0, 114, 178]), 'B': bytes([230, 159, 0]), 'I': bytes([213, 94, 0]), 'W': bytes([0, 158, 115])}
SHOWN = ['loss', 'grad_norm', 'lr', 'step_seconds', 'tokens_per_second', 'flops_per_second', 'bubble', 'predicted_bubble',
         'predicted_step_seconds']


def crc32c(data):
    """By Castagnoli's polynomial, bit by bit."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(data):
    """The records of a TFRecord file; raises where a checksum is wrong or a record is cut off."""
    while data:
        length, checksum = struct.unpack_from('<QI', data)
        record = data[12:12 + length]
        if masked(data[:8]) != checksum or masked(record) != struct.unpack_from('<I', data, 12 + length)[0]:
            raise ValueError('wrong checksum')
        yield record
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(message):
    """[number of a field] its values, in the wire format of protocol buffers."""
    found, at = {}, 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(message, at)
        elif kind == 2:
            length, at = varint(message, at)
            value, at = message[at:at + length], at + length
        else:
            value, at = struct.unpack_from({1: '<d', 5: '<f'}[kind], message, at)[0], at + {1: 8, 5: 4}[kind]
        found.setdefault(key >> 3, []).append(value)
    return found


def pixels(png):
    """(width, height, rows of bytes) of a PNG of 8 bits per channel, RGB or RGBA; raises where it is none."""
    if png[:8] != b'\x89PNG\r\n\x1a\n':
        raise ValueError('no PNG')
    chunks, at = {}, 8
    while at < len(png):
        length, kind = struct.unpack_from('>I4s', png, at)
        body = png[at + 8:at + 8 + length]
        if struct.unpack_from('>I', png, at + 8 + length)[0] != zlib.crc32(kind + body):
            raise ValueError('wrong checksum')
        chunks[kind] = chunks.get(kind, b'') + body
        at += 12 + length
    width, height, depth, colours, *_ = struct.unpack('>IIBBBBB', chunks[b'IHDR'])
    channels = {2: 3, 6: 4}[colours]
    if depth != 8:
        raise ValueError(f'{depth} bits')
    data, line = zlib.decompress(chunks[b'IDAT']), width * channels
    rows, before = [], bytes(line)
    for y in range(height):
        kind, row = data[y * (line + 1)], bytearray(data[y * (line + 1) + 1:(y + 1) * (line + 1)])
        for x, value in enumerate(row):
            left, up = row[x - channels] if x >= channels else 0, before[x]
            corner = before[x - channels] if x >= channels else 0
            nearest = min((left, up, corner), key=lambda one: abs(left + up - corner - one))  # Paeth's predictor
            row[x] = value + (0, left, up, (left + up) // 2, nearest)[kind] & 255
        rows.append(bytes(row))
        before = row
    return width, height, channels, rows


class Tensorboard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / 'text').write_text('And the evening and the morning were day.\n' * 60)

    def train(self, *flags, errors='.*', path=os.environ['PATH']):
        result = subprocess.run([SLUICE, 'train', *flags], capture_output=True, text=True, cwd=self.folder, check=False,
                                env={**os.environ, 'PATH': path})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, errors)
        return result.stdout

    def events(self, path):
        """Its first step; (step, {tag: number}) of each event after the first two, which say that a run begins, but for
        pictures; (step, {tag: fields of the picture})."""
        version, start, *others = [fields(record) for record in records(path.read_bytes())]
        self.assertEqual(version[3], [b'brain.Event:2'])
        self.assertEqual(fields(start[7][0]), {1: [1]})
        numbers, pictures = [], []
        for event in others:
            self.assertLess(abs(event[1][0] - path.stat().st_mtime), 60)
            values = [fields(value) for value in fields(event[5][0])[1]]
            if 4 in values[0]:
                pictures.append((event[2][0], {value[1][0].decode(): fields(value[4][0]) for value in values}))
            else:
                numbers.append((event[2][0], {value[1][0].decode(): value[2][0] for value in values}))
        return start[2][0], numbers, pictures

    def shown(self, board):
        """(tag, step) of each point and picture that the files of a folder leave to be shown, in the order of their names: where a
        run begins, what was there of its first step and of later ones goes."""
        found = []
        for path in sorted((self.folder / board).iterdir()):
            begin, numbers, pictures = self.events(path)
            found = [(tag, step) for tag, step in found if step < begin]
            found += [(tag, step) for step, tags in pictures + numbers for tag in tags]
        return found

    def check(self, numbers, printed):
        """`printed`: the lines of --json from the same step on."""
        lines = [json.loads(line) for line in printed.splitlines()]
        lines = [line for line in lines if 'loss' in line or 'eval_loss' in line and 'evaluated_step' in line]
        self.assertEqual(len(numbers), len(lines))
        for (step, shown), line in zip(numbers, lines):
            tags = SHOWN if 'loss' in line else ['eval_loss', 'accuracy']
            self.assertEqual(step, line.get('step', line.get('evaluated_step')))
            self.assertEqual(list(shown), tags)
            for tag in tags:
                self.assertEqual(shown[tag], struct.unpack('<f', struct.pack('<f', line[tag]))[0], tag)

    def test_the_reader_knows_the_checksum(self):
        self.assertEqual(crc32c(b'123456789'), 0xe3069283)  # the check value of CRC-32C

    def test_has_the_numbers_of_json_and_goes_on(self):
        flags = ['--data', 'text', *RUN, '--eval-every', '3', '--save', 'out', '--save-every', '2', '--keep', 'all',
                 '--tensorboard', 'board/run']
        printed = self.train(*flags, '--json')
        first, = (self.folder / 'board/run').iterdir()
        self.assertRegex(first.name, r'^events\.out\.tfevents\.\d{10}\.')
        begin, numbers, _ = self.events(first)
        self.assertEqual(begin, 1)
        self.check(numbers, printed)

        shutil.rmtree(self.folder / 'out/step-00000006')
        (self.folder / 'out/latest').unlink()
        (self.folder / 'out/latest').symlink_to('step-00000004')
        printed = self.train('--resume', 'out', '--steps', '7', '--json')
        second, = set((self.folder / 'board/run').iterdir()) - {first}
        begin, numbers, pictures = self.events(second)
        self.assertEqual(begin, 5)
        self.assertEqual([step for step, _ in pictures], [4] if shutil.which('rsvg-convert') else [])
        self.check(numbers, printed)
        self.assertEqual([step for step, _ in numbers], [5, 6, 6, 7, 7])

    def test_has_each_point_once_when_a_finished_run_is_resumed(self):
        first = self.train('--data', 'text', *RUN, '--save', 'out', '--tensorboard', 'board', '--json')
        for _ in range(2):
            self.train('--resume', 'out', '--json')
        self.assertEqual(len(list((self.folder / 'board').iterdir())), 3)
        found = self.shown('board')
        self.assertEqual(len(found), len(set(found)), found)
        steps = [json.loads(line)['step'] for line in first.splitlines() if '"loss"' in line]
        self.assertEqual([step for tag, step in found if tag == 'loss'], steps)
        self.assertEqual([step for tag, step in found if tag == 'eval_loss'], [6])
        pictures = [step for tag, step in found if tag == 'timetable']
        self.assertEqual(pictures, [0, 6] if shutil.which('rsvg-convert') else [])

    @unittest.skipUnless(shutil.which('rsvg-convert'), 'rsvg-convert is not there')
    def test_has_the_timetable_as_a_picture(self):
        bars = {}
        for schedule, names in {'1f1b': ['F', 'B'], 'zb-h1': ['F', 'I', 'W'], 'chimera': ['F', 'B'],
                                'pipedream': ['F', 'B']}.items():
            with self.subTest(schedule):
                board = f'board/{schedule}'
                self.train('--data', 'text', *RUN, '--schedule', schedule, '--tensorboard', board, errors='^$')
                file, = (self.folder / board).iterdir()
                _, numbers, ((step, tags),) = self.events(file)
                self.assertEqual(len(numbers), 6 + 1)
                self.assertEqual((step, list(tags)), (0, ['timetable']))
                picture = tags['timetable']
                width, height, channels, rows = pixels(picture[4][0])
                self.assertEqual((picture[1], picture[2], picture[3]), ([height], [width], [channels]))
                colours = {bytes(row[x:x + 3]) for row in rows for x in range(0, len(row), channels)}
                bars[schedule] = {name for name, colour in COLOURS.items() if colour in colours}
                self.assertLessEqual(set(names), bars[schedule])
        self.assertNotIn('W', bars['1f1b'])

    def test_says_that_there_is_no_picture(self):
        (self.folder / 'bin').mkdir()
        self.train('--data', 'text', *RUN, '--tensorboard', 'none', path=str(self.folder / 'bin'),
                   errors=r'^sluice: --tensorboard none gets no picture of the timetable: .*rsvg-convert.*librsvg2-bin\n$')
        broken = self.folder / 'bin/rsvg-convert'
        for code in 0, 3:
            broken.write_text(f'#!/bin/sh\necho picture\necho it is broken >&2\nexit {code}\n')
            broken.chmod(0o755)
            self.train('--data', 'text', *RUN, '--tensorboard', f'broken {code}', path=str(self.folder / 'bin'),
                       errors=fr'^sluice: .* no picture of the timetable: .*exit code {code} .*no PNG file: it is broken\n$')
        for board in 'none', 'broken 0', 'broken 3':
            file, = (self.folder / board).iterdir()
            _, numbers, pictures = self.events(file)
            self.assertEqual((len(numbers), pictures), (6 + 1, []))

    def test_a_picture_that_takes_long_does_not_end_the_run(self):
        (self.folder / 'bin').mkdir()
        slow = self.folder / 'bin/rsvg-convert'
        slow.write_text('#!/bin/sh\nexec tail -f /dev/null\n')
        slow.chmod(0o755)
        self.train('--data', 'text', *RUN, '--tensorboard', 'slow', '--timeout', '1s', path=f'{self.folder}/bin:{os.environ["PATH"]}',
                   errors=r'^sluice: .* no picture of the timetable: .*rsvg-convert took longer than 333.*ms\n$')
        file, = (self.folder / 'slow').iterdir()
        _, numbers, pictures = self.events(file)
        self.assertEqual((len(numbers), pictures), (6 + 1, []))

    def test_what_cannot_be_written_is_said_before_the_training(self):
        result = subprocess.run([SLUICE, 'train', '--data', 'text', *RUN, '--tensorboard', 'text'], capture_output=True,
                                text=True, cwd=self.folder, check=False)
        self.assertEqual((result.returncode, result.stdout), (2, ''))
        self.assertIn('--tensorboard text: cannot write there: Not a directory', result.stderr)


if __name__ == '__main__':
    unittest.main()
