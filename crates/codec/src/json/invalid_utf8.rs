//! Invalid UTF-8: each invalid byte becomes U+FFFD, and errors name the original byte.

use super::error::Error;

/// The text with every invalid byte replaced by U+FFFD.
pub(crate) fn replace_invalid_utf8(bytes: &[u8]) -> String {
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

/// The error with the original byte instead of its replacement. `at` is the index in the replaced text.
pub(super) fn restore_invalid_byte(error: Error, bytes: &[u8], at: usize) -> Error {
    let Error::Byte { context, .. } = error else {
        return error;
    };
    let mut end = 0;
    for chunk in bytes.utf8_chunks() {
        end += chunk.valid().len();
        if at < end {
            return error;
        }
        for byte in chunk.invalid() {
            if at < end + char::REPLACEMENT_CHARACTER.len_utf8() {
                return Error::Byte { byte: *byte, context };
            }
            end += char::REPLACEMENT_CHARACTER.len_utf8();
        }
    }
    error
}
