//! The models against vectors that the reference reader of the training scripts gives.

use super::*;

const DOCUMENTS: [(&str, &str); 4] = [
    ("read_file", "def read_file(path):\n    with open(path) as f:\n        return f.read()"),
    (
        "kill_child",
        "fn kill_child(pid: u32) -> io::Result<()> {\n    // sends SIGKILL to the whole group\n    kill(-pid)\n}",
    ),
    ("parseHTTPHeader2", "function parseHTTPHeader2(line) {\n  return line.split(': ');\n}"),
    ("", ""),
];
const QUERIES: [&str; 4] = [
    "read the contents of a file",
    "kill a child process and its grandchildren",
    "xyzzyplugh",
    "parse an HTTP header",
];

/// The first six numbers of each vector: the documents, then the queries.
const FAST: [[f32; 6]; 8] = [
    [-0.01347, 0.01015, -0.06916, -0.01625, 0.04785, -0.13530],
    [-0.00535, -0.13938, -0.06638, -0.14671, 0.01271, 0.03736],
    [0.10481, -0.07921, 0.03456, 0.04956, -0.03935, -0.08610],
    [0.00000, 0.00000, 0.00000, 0.00000, 0.00000, 0.00000],
    [-0.02243, -0.04149, -0.07596, 0.07563, 0.05882, -0.15246],
    [-0.12115, -0.10421, -0.05828, -0.01652, -0.06249, 0.21643],
    [-0.07141, -0.01758, 0.15133, -0.12002, -0.04336, -0.08278],
    [0.09612, -0.11156, 0.01836, 0.06435, -0.05286, -0.09396],
];
/// The first six numbers of each vector: the documents, then the queries.
const PRECISE: [[f32; 6]; 8] = [
    [-0.08551, -0.06174, -0.00950, -0.14257, -0.01648, -0.08290],
    [-0.09033, -0.17893, -0.01770, -0.20915, -0.13318, -0.09984],
    [0.08906, -0.14400, 0.04315, -0.00330, -0.00821, 0.05271],
    [0.00000, 0.00000, 0.00000, 0.00000, 0.00000, 0.00000],
    [-0.04281, -0.12661, 0.00995, -0.08006, 0.02186, -0.08364],
    [-0.09824, -0.16779, -0.00286, -0.15134, -0.12587, 0.06159],
    [-0.12284, -0.14228, 0.21024, -0.06693, -0.22229, -0.15883],
    [0.09142, -0.18257, 0.06951, 0.02395, 0.00202, 0.06120],
];

fn check(model: &Model, expected: &[[f32; 6]]) {
    let documents = DOCUMENTS.iter().map(|(name, code)| model.document(name, code));
    let vectors: Vec<Vec<f32>> = documents.chain(QUERIES.iter().map(|query| model.query(query))).collect();
    for (at, (vector, expected)) in vectors.iter().zip(expected).enumerate() {
        assert_eq!(vector.len(), 128);
        for (got, expected) in vector.iter().zip(expected) {
            assert!((got - expected).abs() < 2e-5, "vector {at}: {:?} is not {expected:?}", &vector[..6]);
        }
    }
}

#[test]
fn the_fast_model_gives_the_vectors_of_the_reference_reader() {
    check(&Model::fast().unwrap(), &FAST);
}

#[test]
fn the_precise_model_gives_the_vectors_of_the_reference_reader() {
    check(&Model::precise().unwrap(), &PRECISE);
}

#[test]
fn a_question_is_nearest_to_the_code_that_answers_it() {
    let model = Model::fast().unwrap();
    let documents: Vec<Vec<f32>> = DOCUMENTS.iter().map(|(name, code)| model.document(name, code)).collect();
    for (question, answer) in [(0, 0), (1, 1), (3, 2)] {
        let query = model.query(QUERIES[question]);
        let similarity = |vector: &Vec<f32>| vector.iter().zip(&query).map(|(a, b)| a * b).sum::<f32>();
        let best = (0..documents.len())
            .max_by(|a, b| similarity(&documents[*a]).total_cmp(&similarity(&documents[*b])));
        assert_eq!(best, Some(answer), "{}", QUERIES[question]);
    }
}

#[test]
fn a_damaged_file_is_refused() {
    let whole = include_bytes!("../../model/static128.tyce");
    assert_eq!(Model::read(b"").unwrap_err(), ModelError::Magic);
    assert_eq!(Model::read(&whole[..8]).unwrap_err(), ModelError::Short);
    assert_eq!(Model::read(&whole[..100_000]).unwrap_err(), ModelError::Short);
    let longer = [whole.as_slice(), b"x"].concat();
    assert_eq!(Model::read(&longer).unwrap_err(), ModelError::Long(1));
    let huge = [b"TYCE1\0\0\0".as_slice(), &[255; 64]].concat();
    assert_eq!(Model::read(&huge).unwrap_err(), ModelError::Size);
}
