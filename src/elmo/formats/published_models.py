"""Table of ELMo models published by others, which `elmo download` can download.

Addresses and licenses come from the pages of the publishers. None of the files was downloaded to
check them. The sizes of the AI2 models follow from their numbers of parameters.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """A file of a published model, with its checksum as `ALGORITHM:HEX` if one is published."""

    url: str
    checksum: str = ""

    @property
    def name(self) -> str:
        """File name: the last part of the address."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class PublishedModel:
    """A published model, with its training text and files.

    A single file is an archive, which is read without unpacking. The license of the weights is an
    SPDX identifier, or "not stated". `is_listed` is whether the publisher's page contains these
    addresses; otherwise, they follow the scheme of the repository or come from users of the model.
    """

    name: str
    language: str
    text: str
    files: tuple[RemoteFile, ...]
    page: str
    license: str = "not stated"
    megabytes: int | None = None
    is_listed: bool = True


_AI2 = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"
_AI2_PAGE = "https://allennlp.org/elmo"
_NLPL = "http://vectors.nlpl.eu/repository"
_NLPL_PAGE = "http://wiki.nlpl.eu/index.php/Vectors/home"
_MANY_LANGS_PAGE = "https://github.com/HIT-SCIR/ELMoForManyLangs"
_GERMAN_PAGE = "https://github.com/t-systems-on-site-services-gmbh/german-elmo-model"
_ONE_BILLION = "One Billion Word Benchmark (news), 800 M words"
# ELMoForManyLangs: language code, language, number in the NLPL repository.
_MANY_LANGS = """
ar Arabic 136, bg Bulgarian 137, ca Catalan 138, cs Czech 139, cu Old Church Slavonic 140,
da Danish 141, de German 142, el Greek 143, en English 144, es Spanish 145, et Estonian 146,
eu Basque 147, fa Persian 148, fi Finnish 149, fr French 150, ga Irish 151, gl Galician 152,
grc Ancient Greek 153, he Hebrew 154, hi Hindi 155, hr Croatian 156, hu Hungarian 157,
id Indonesian 158, it Italian 159, ja Japanese 160, ko Korean 161, la Latin 162, lv Latvian 163,
nl Dutch 164, nb Norwegian Bokmål 165, nn Norwegian Nynorsk 166, pl Polish 167, pt Portuguese 168,
ro Romanian 169, ru Russian 170, sk Slovak 171, sl Slovenian 172, sv Swedish 173, tr Turkish 174,
ug Uyghur 175, uk Ukrainian 176, ur Urdu 177, vi Vietnamese 178, zh Chinese (traditional) 179
"""


def _pair(folder: str, options: str, weights: str) -> tuple[RemoteFile, RemoteFile]:
    return RemoteFile(f"{folder}/{options}"), RemoteFile(f"{folder}/{weights}")


def _ai2(name: str, stem: str, text: str, megabytes: int) -> PublishedModel:
    files = _pair(f"{_AI2}/{stem}", f"elmo_{stem}_options.json", f"elmo_{stem}_weights.hdf5")
    return PublishedModel(name, "English", text, files, _AI2_PAGE, megabytes=megabytes)


def _many_langs() -> list[PublishedModel]:
    models = []
    for row in _MANY_LANGS.replace("\n", " ").split(","):
        code, *language, number = row.split()
        file = RemoteFile(f"{_NLPL}/11/{number}.zip")
        text = "Wikipedia and Common Crawl, 20 M words"
        models.append(
            PublishedModel(f"manylangs-{code}", " ".join(language), text, (file,), _MANY_LANGS_PAGE)
        )
    return models


def _nlpl(number: int, language: str, text: str) -> PublishedModel:
    file = RemoteFile(f"{_NLPL}/20/{number}.zip")
    page = "http://wiki.nlpl.eu/Vectors/norlm/elmo" if language == "Norwegian" else _NLPL_PAGE
    return PublishedModel(f"nlpl-{number}", language, text, (file,), page, is_listed=False)


_MODELS = (
    _ai2("ai2-small", "2x1024_128_2048cnn_1xhighway", _ONE_BILLION, 54),
    _ai2("ai2-medium", "2x2048_256_2048cnn_1xhighway", _ONE_BILLION, 112),
    _ai2("ai2-original", "2x4096_512_2048cnn_2xhighway", _ONE_BILLION, 374),
    _ai2(
        "ai2-original-5.5b",
        "2x4096_512_2048cnn_2xhighway_5.5B",
        "Wikipedia and news, 5.5 G words",
        374,
    ),
    PublishedModel(
        "ai2-pubmed",
        "English (biomedical)",
        "PubMed",
        _pair(
            f"{_AI2}/contributed/pubmed",
            "elmo_2x4096_512_2048cnn_2xhighway_options.json",
            "elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
        ),
        _AI2_PAGE,
        megabytes=374,
    ),
    PublishedModel(
        "ufg-pt-wikipedia",
        "Portuguese",
        "Wikipedia",
        _pair(f"{_AI2}/contributed/pt/wikipedia", "options.json", "elmo_pt_weights.hdf5"),
        _AI2_PAGE,
    ),
    PublishedModel(
        "ufg-pt-brwac",
        "Portuguese",
        "brWaC (web)",
        _pair(f"{_AI2}/contributed/pt/brwac", "options.json", "elmo_pt_weights_dgx1.hdf5"),
        _AI2_PAGE,
    ),
    PublishedModel(
        "exawizards-ja",
        "Japanese",
        "not stated",
        _pair(
            "https://exawizardsallenlp.blob.core.windows.net/data", "options.json", "weights.hdf5"
        ),
        _AI2_PAGE,
    ),
    PublishedModel(
        "t-systems-de",
        "German",
        "Wikipedia with discussion pages, 963 M words",
        (
            RemoteFile(
                f"{_GERMAN_PAGE}/releases/download/files_1/options.json",
                "sha1:04afb8bc77acf5e65633ced2efc1e91d05332e89",
            ),
            RemoteFile(
                f"{_GERMAN_PAGE}/releases/download/files_1/weights.hdf5",
                "sha1:9084adab3eefaed4f07da7331217fcb873417add",
            ),
        ),
        _GERMAN_PAGE,
        license="BSD-2-Clause",
    ),
    PublishedModel(
        "schweter-eu",
        "Basque",
        "Wikipedia, OPUS and Leipzig Corpora",
        _pair("https://schweter.eu/cloud/eu-elmo", "options.json", "weights.hdf5"),
        "https://github.com/stefan-it/plur",
    ),
    PublishedModel(
        "schweter-ta",
        "Tamil",
        "Wikipedia, OPUS and Leipzig Corpora, 22 M words",
        _pair("https://schweter.eu/cloud/ta-elmo", "options.json", "weights.hdf5"),
        "https://github.com/stefan-it/plur",
    ),
    PublishedModel(
        "embeddia-sl",
        "Slovenian",
        "not stated",
        (
            RemoteFile(
                "https://www.clarin.si/repository/xmlui/bitstream/handle/11356/1277/"
                "slovenian-elmo.tar.gz"
            ),
        ),
        "https://www.clarin.si/repository/xmlui/handle/11356/1277",
        is_listed=False,
    ),
    _nlpl(196, "Russian", "Wikipedia and National Corpus, lemmas"),
    _nlpl(210, "Norwegian", "Wikipedia, lemmas, 160 M words"),
    _nlpl(211, "Norwegian", "Wikipedia, 160 M words"),
    _nlpl(217, "Norwegian", "Wikipedia and newspapers, 30,000 target words"),
    _nlpl(218, "Norwegian", "Wikipedia and newspapers, 100,000 target words"),
    *_many_langs(),
)
MODELS = {model.name: model for model in _MODELS}


def model_of_url(url: str) -> str | None:
    """Return the name of the published model that has a file at an address; None if there is none.

    Publishers moved their files to other hosts, so only the last three parts are compared.
    """
    parts = url.split("/")[-3:]
    for model in MODELS.values():
        if any(file.url.split("/")[-3:] == parts for file in model.files):
            return model.name
    return None
