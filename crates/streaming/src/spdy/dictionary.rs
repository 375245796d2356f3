//! The preset dictionary of header compression; section 2.6.10.1 of the SPDY/3 draft.

/// Words, each preceded by its length in the dictionary.
const WORDS: &str = "\
    options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|\
    accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|\
    content-language|content-length|content-location|content-md5|content-range|content-type|date|etag|\
    expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|\
    last-modified|location|max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|\
    retry-after|server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|\
    www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin";

/// Status codes, dates and values, which follow the words.
const TAIL: &str = concat!(
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 No",
    "n-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403",
    " Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Fe",
    "b Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunke",
    "d,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/",
    "javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
);

/// The checksum (Adler-32) of the dictionary, which a compressed stream begins with.
pub(super) const CHECKSUM: u32 = 0xe3c6_a7c2;

/// The dictionary.
pub(super) fn dictionary() -> Vec<u8> {
    let mut dictionary = Vec::with_capacity(1423);
    for word in WORDS.split('|') {
        dictionary.extend_from_slice(&(word.len() as u32).to_be_bytes());
        dictionary.extend_from_slice(word.as_bytes());
    }
    dictionary.extend_from_slice(TAIL.as_bytes());
    dictionary
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adler32(bytes: &[u8]) -> u32 {
        let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
            let low = (low + u32::from(*byte)) % 65521;
            (low, (high + low) % 65521)
        });
        high << 16 | low
    }

    #[test]
    fn the_dictionary_has_the_checksum_that_clients_send() {
        assert_eq!(dictionary().len(), 1423);
        assert_eq!(adler32(&dictionary()), CHECKSUM);
    }
}
