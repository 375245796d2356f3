//! Mutations of an input: small changes of bytes, numbers and lengths, and pieces of other inputs.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Inputs do not grow beyond this, so that a run tries many of them.
const MAX_BYTES: usize = 64 << 10;

/// The largest number of mutations of one input.
const MAX_MUTATIONS: u32 = 6;

/// Bytes at the limits of number types, and those that formats use as delimiters.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff \n\r\t\"'\\{}[](),:;#&*!|>%@-+.=<>~^$0123456789eEx";

/// Pieces that mean something to one of the formats.
const TOKENS: &[&str] = &[
    "null",
    "true",
    "~",
    "yes",
    "---\n",
    "...",
    "<<: *a",
    "&a ",
    "*a",
    "!!binary ",
    "!!str ",
    "? ",
    "|2-\n",
    "{}",
    "[]",
    "[[[[",
    "{\"a\":",
    "\\u0000",
    "\\ud800",
    "1e999",
    "-0",
    "0x",
    "9223372036854775808",
    "18446744073709551616",
    "$patch",
    "$retainKeys",
    "$setElementOrder/",
    "$deleteFromPrimitiveList/",
    "/-",
    "~1",
    "~0",
    "metadata",
    "k:{",
    " in (",
    "notin",
    "!=",
    "==",
    "\u{feff}",
    "\u{2028}",
    "é",
    "Ki",
    "E",
    "n",
    "{{",
    "}}",
    "{{- ",
    " -}}",
    " | ",
    "{{end}}",
    "{{else}}",
    "{{range .l}}",
    "{{with .m}}",
    "{{template \"t\" .}}",
    "$x := ",
];

/// A mutation of one of the seeds.
pub(crate) fn mutated(seeds: &[Vec<u8>], rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = seeds.choose(rng).cloned().unwrap_or_default();
    for _ in 0..rng.random_range(1..=MAX_MUTATIONS) {
        mutate(&mut bytes, seeds, rng);
    }
    bytes.truncate(MAX_BYTES);
    bytes
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut StdRng) {
    let at = rng.random_range(0..=bytes.len());
    let end = (at + rng.random_range(1..=16)).min(bytes.len());
    match rng.random_range(0..10) {
        0 => flip_bit(bytes, at, rng),
        1 => replace_byte(bytes, at, rng),
        2 => bytes.insert(at, *BYTES.choose(rng).unwrap_or(&0)),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.truncate(at),
        5 => insert(bytes, at, TOKENS.choose(rng).unwrap_or(&"").as_bytes()),
        6 => repeat(bytes, at, end, rng),
        7 => splice(bytes, at, seeds, rng),
        8 => overwrite_number(bytes, at, rng),
        _ => move_piece(bytes, at, end, rng),
    }
}

fn flip_bit(bytes: &mut [u8], at: usize, rng: &mut StdRng) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << rng.random_range(0..8);
    }
}

fn replace_byte(bytes: &mut [u8], at: usize, rng: &mut StdRng) {
    if let (Some(byte), Some(other)) = (bytes.get_mut(at), BYTES.choose(rng)) {
        *byte = *other;
    }
}

/// Repeats a piece: deep nesting and long lists come from this.
fn repeat(bytes: &mut Vec<u8>, at: usize, end: usize, rng: &mut StdRng) {
    let count = 1 << rng.random_range(0..8);
    let piece = bytes[at..end].repeat(count);
    insert(bytes, at, &piece);
}

/// Inserts a piece of another seed.
fn splice(bytes: &mut Vec<u8>, at: usize, seeds: &[Vec<u8>], rng: &mut StdRng) {
    let Some(other) = seeds.choose(rng) else { return };
    let start = rng.random_range(0..=other.len());
    let end = rng.random_range(start..=other.len());
    insert(bytes, at, &other[start..end]);
}

/// Overwrites up to eight bytes with a number at a limit: binary formats have their lengths there.
fn overwrite_number(bytes: &mut [u8], at: usize, rng: &mut StdRng) {
    let numbers = [
        0,
        1,
        0x7f,
        0x80,
        0xff,
        0x7fff_ffff,
        0xffff_ffff,
        u64::MAX,
        u64::MAX >> 1,
    ];
    let number = numbers.choose(rng).copied().unwrap_or_default();
    let number = if rng.random() {
        number.to_le_bytes()
    } else {
        number.to_be_bytes()
    };
    let width = 1 << rng.random_range(0..4);
    for (byte, new) in bytes[at..].iter_mut().zip(number).take(width) {
        *byte = new;
    }
}

fn move_piece(bytes: &mut Vec<u8>, at: usize, end: usize, rng: &mut StdRng) {
    let piece: Vec<u8> = bytes.drain(at..end).collect();
    let to = rng.random_range(0..=bytes.len());
    insert(bytes, to, &piece);
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}
