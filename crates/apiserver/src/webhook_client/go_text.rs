//! The errors of failed calls, with the text of Go's HTTP client.

use std::error::Error;
use std::io;

/// The error before the head of the response: of the connection, the TLS handshake or the exchange.
pub(super) fn transport(error: &io::Error) -> String {
    let Some(failed) = find::<hyper::Error>(error) else {
        return error.to_string();
    };
    if failed.is_incomplete_message() {
        return "EOF".to_owned();
    }
    if failed.is_parse() {
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned();
    }
    connection(failed).unwrap_or_else(|| failed.to_string())
}

/// The error while the body of the response is read.
pub(super) fn body(error: &io::Error) -> String {
    let Some(failed) = find::<hyper::Error>(error) else {
        return error.to_string();
    };
    match connection(failed) {
        Some(text) if text != "EOF" => text,
        _ => "unexpected EOF".to_owned(),
    }
}

/// The error of the connection below, if there is one.
fn connection(failed: &hyper::Error) -> Option<String> {
    let error = failed.source()?.downcast_ref::<io::Error>()?;
    match error.kind() {
        io::ErrorKind::ConnectionReset => Some("read: connection reset by peer".to_owned()),
        io::ErrorKind::BrokenPipe => Some("write: broken pipe".to_owned()),
        io::ErrorKind::UnexpectedEof => Some("EOF".to_owned()),
        _ => None,
    }
}

fn find<E: Error + 'static>(error: &io::Error) -> Option<&E> {
    error.get_ref()?.downcast_ref::<E>()
}
