//! Checksums and digests.

use ring::digest::{self, Algorithm};

use super::super::Type::String as Text;
use super::super::{Row, row};
use super::text::text;

pub(super) const ROWS: &[Row] = &[
    row("sha1sum", &[Text], |_, args| {
        text(hex(&digest::SHA1_FOR_LEGACY_USE_ONLY, args[0].as_str()))
    }),
    row("sha256sum", &[Text], |_, args| {
        text(hex(&digest::SHA256, args[0].as_str()))
    }),
    row("sha512sum", &[Text], |_, args| {
        text(hex(&digest::SHA512, args[0].as_str()))
    }),
    row("adler32sum", &[Text], |_, args| {
        text(adler32(args[0].as_str()).to_string())
    }),
];

fn hex(algorithm: &'static Algorithm, value: &str) -> String {
    let digest = digest::digest(algorithm, value.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn adler32(value: &str) -> u32 {
    const MODULUS: u32 = 65521;
    let (a, b) = value.bytes().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(byte)) % MODULUS;
        (a, (b + a) % MODULUS)
    });
    b << 16 | a
}
