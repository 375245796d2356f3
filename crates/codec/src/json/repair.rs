//! Bytes that are no UTF-8: each becomes U+FFFD, and errors are told of what came.

use super::error::Error;

/// The text with every byte that is no part of UTF-8 replaced.
pub(crate) fn repaired(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk
            .invalid()
            .iter()
            .for_each(|_| text.push(char::REPLACEMENT_CHARACTER));
    }
    text
}

/// What is wrong, told of the byte that came rather than of the one that was put in its place.
pub(super) fn unrepaired(error: Error, bytes: &[u8], at: usize) -> Error {
    let Error::Byte { place, .. } = error else {
        return error;
    };
    let mut repaired = 0;
    for chunk in bytes.utf8_chunks() {
        repaired += chunk.valid().len();
        if at < repaired {
            return error;
        }
        for byte in chunk.invalid() {
            if at < repaired + char::REPLACEMENT_CHARACTER.len_utf8() {
                return Error::Byte { byte: *byte, place };
            }
            repaired += char::REPLACEMENT_CHARACTER.len_utf8();
        }
    }
    error
}
