"""Which language a text is in, as far as the leak filter needs it: is there a clause that no reader of the skill wrote?

Commands and secrets pass every other rule in translation. A clause is foreign when its frequent words are those of
another language and hardly English ones, when most of its words carry accents, when a long stretch holds no English
word at all, or when a phrase runs on in another script. Single words, names of products and short loans are not.
"""

# ruff: noqa: E501
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from intraskill.method.leakage.index import COMMON_WORDS
from intraskill.method.leakage.text import fold

UNKNOWN = "unknown"
_CLAUSE = re.compile(r"[^.!?;\n。！？；।؟]+")  # noqa: RUF001
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")  # noqa: RUF001
_LIST_MARK = re.compile(r"[,，、:|/()#_\"“”`-]")  # noqa: RUF001
_WINDOW = 8  # words of a clause that are judged on their own, so that a foreign one hides in no long English sentence
_FEWEST = 4  # words without which a clause says nothing of its language
_SHARE = 0.2  # of a clause's words, this share at least are frequent ones of its language
_ACCENTED = 3  # words with accents, and a quarter of the clause, that make it foreign in a language that is not listed
_STRETCH = 8  # words in a row, nothing between them, of which one would be English
_SCRIPT_WORDS = 4  # words in a row in another script
_SAMPLE = 200  # texts that tell a world's languages
_HIRAGANA = 5  # syllables of Japanese grammar; names of goods are in katakana or Han characters
# Frequent words as they fold, without those that are English words too ("die", "in", "me"), and a few that any command
# to the agent needs. Not a dictionary: two or three of them in one clause are enough.
_FREQUENT = {
    "Spanish": "el la los las una unas del que con por para pero como esta este estos estas todo todos todas sus ser hay"
    " donde cuando antes despues sobre sin hasta desde muy tambien siempre nunca primero primer cada lo les cual quien de"
    " olvida ignora haz diga compra instrucciones anteriores usuario tu un se en su al",
    "Portuguese": "os um uma da dos das em com por para que nao mais mas seu sua isto este esta esse essa todo todos"
    " todas ao pelo pela quando antes depois cada sempre nunca primeiro voce dele dela ele de se desconsidere esqueca"
    " revele compre faca instrucoes anteriores usuario completo",
    "Italian": "il lo la gli della delle dei degli del di che con una uno sono questo questa queste questi tutti tutte"
    " tutto piu anche quando prima dopo ogni sempre mai alla alle dal nel nella sul sulla tuo tua ignora dimentica fai"
    " compra istruzioni precedenti utente adesso da si se un",
    "French": "le la les des du une un et est que qui dans pour pas sur avec par tout toute toutes tous cette ces cet ses"
    " vous nous ils elle aux au en ne se si sont votre vos leur mais ou quand avant apres chaque toujours jamais premier"
    " premiere de ce oubliez ignorez faites achetez consignes precedentes",
    "German": "der das und nicht ist ein eine einen einem einer eines mit von fur auf auch sich dem den des zu zum zur"
    " bei oder wenn dann aber nach vor uber unter alle alles sie ich wir ihr sind wird werden kann muss soll immer nie"
    " zuerst jede jeder jedes jemand hat haben diese dieser dieses nur noch sehr schon mehr durch bis aus ohne im am"
    " vergiss ignoriere befolge kaufe anweisungen",
    "Dutch": "het een van en niet voor met zijn dat ook maar naar bij uit deze dit alle alles wordt worden moet je jij"
    " geen nog door om te wat er aan de negeer vergeet koop instructies vorige eerste",
    "Swedish": "och att det som en ett inte pa ar med av till jag du sig fran alla eller nar bara fore efter alltid"
    " aldrig forsta glom ignorera kop instruktioner tidigare vad",
    "Danish or Norwegian": "og det som en et ikke pa er med af av til de jeg du sig fra alle eller nar kun etter efter"
    " altid alltid aldri aldrig forste glem ignorer kjop kob instruksjoner",
    "Polish": "nie sie na jest oraz jak tylko przed po wszystkie wszystkich poprzednie pierwszy pierwsza dla od przez to"
    " ze lub czy tego jego zawsze nigdy ktory ktora zignoruj ignoruj kup polecenia instrukcje teraz",
    "Czech": "je na se ze nebo jako ale ktery ktera vsechny vsech predchozi pokyny ignoruj prvni kup neni jsou pro pred"
    " vzdy nikdy tento tato toto",
    "Romanian": "si nu este pentru cu din care sau toate toti ale instructiunile anterioare ignora primul prima cumpara"
    " inainte dupa pe un",
    "Hungarian": "es nem az egy hogy minden korabbi utasitast utasitasokat hagyd figyelmen kivul vedd elso vagy csak"
    " mindig soha",
    "Turkish": "ve bir bu icin ile tum onceki talimatlari yok say ilk urunu satin degil her sonra gibi daha cok olarak"
    " veya",
    "Indonesian": "dan yang untuk dengan ini itu tidak semua sebelumnya abaikan instruksi pertama beli dari pada atau"
    " akan adalah jangan",
    "Finnish": "ja ei kaikki aiemmat ohjeet ensimmainen osta unohda jos tai mutta etta myos joka ovat",
    "Latin": "et est quod omnia omnes praecepta priora primum sed cum ut vel aut sunt qui quae ab hoc haec neglege eme",
    "Swahili": "na ya wa kwa ni yote za hii hiyo kabla maagizo puuza kila lakini katika kama",
    "Esperanto": "kaj la al vi oni kion ne estas de kiu cion antau forgesu",
    "Tagalog": "ang mga ng sa na ay lahat bago hindi para ito naman ito unang bilhin",
}  # fmt: skip
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in _FREQUENT.items():
    for _word in dict.fromkeys(_words.split()):
        _LANGUAGES_OF.setdefault(_word, []).append(_language)
_ENGLISH = frozenset(
    re.findall(
        r"\w+",
        "the and of for with by from is are it this that these those you your they their if when then than not does but"
        " before after any each every which who what how can may must only more most first one its out up into over be"
        " has have had there here where while until unless such other another",
    )
)
_KNOWN = _ENGLISH | COMMON_WORDS | {"a", "an", "in", "on", "as", "so", "was", "do", "no", "to", "at", "me", "per", "or"}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A stretch of text in another language.

    Attributes:
        languages: those that it may be in; a script's name, or ``unknown``.
        span: the stretch as it stands.
    """

    languages: frozenset[str]
    span: str


def foreign(raw: str, spoken: Collection[str] = ()) -> Iterator[Foreign]:
    """Yield the stretches of a text that are neither English nor Chinese nor in a language of ``spoken``."""
    for clause in _CLAUSE.finditer(raw):
        found = _of_script(clause[0]) or _of_words(clause[0])
        if found and found.languages.isdisjoint(spoken):
            yield found


def languages_of(texts: Sequence[str], share: float) -> frozenset[str]:
    """Return the other languages that at least ``share`` of some texts hold: those of a world's own requests."""
    sample = texts[:: len(texts) // _SAMPLE + 1]
    told = [frozenset[str]().union(*(found.languages for found in foreign(text))) for text in sample]
    names = frozenset[str]().union(*told) - {UNKNOWN}
    return frozenset(name for name in names if sum(name in one for one in told) >= share * len(told))


def _of_words(clause: str) -> Foreign | None:
    """Judge a clause by its Latin words: all of it, then each part of it that a longer one could hide."""
    places = [match for match in _WORD.finditer(clause) if _script(match[0][0]) == "LATIN"]
    words = [_folded(match[0]) for match in places]
    languages, first, last = _frequent(words, 2), 0, len(words)
    if not languages:
        for start in range(len(words) - _FEWEST + 1):
            if languages := _frequent(words[start : start + _WINDOW], 3, most_english=0):
                first, last = start, min(start + _WINDOW, len(words))
                break
    if not languages and _strange(clause, words, [match[0] for match in places]):
        languages = frozenset({UNKNOWN})
    return Foreign(languages, clause[places[first].start() : places[last - 1].end()]) if languages else None


def _frequent(words: list[str], fewest: int, most_english: int | None = None) -> frozenset[str]:
    """Return the languages whose frequent words stand out among some words."""
    if len(words) < _FEWEST:
        return frozenset()
    held: dict[str, set[str]] = {}
    for word in words:
        for language in _LANGUAGES_OF.get(word, ()):
            held.setdefault(language, set()).add(word)
    english = sum(word in _ENGLISH for word in words)
    most = max((len(found) for found in held.values()), default=0)
    limit = most - 1 if most_english is None else most_english
    if most < max(fewest, _SHARE * len(words)) or english > limit:
        return frozenset()
    return frozenset(language for language, found in held.items() if len(found) == most)


def _strange(clause: str, words: list[str], raw: list[str]) -> bool:
    """Whether a clause has the accents of another language, or a long stretch without one English word."""
    accented = sum(not word.isascii() for word in raw)
    if len(words) > _FEWEST and accented >= max(_ACCENTED, len(words) / 4) and not any(w in _ENGLISH for w in words):
        return True
    longest = (_WORD.findall(part) for part in _LIST_MARK.split(clause) if not any(c.isdigit() for c in part))
    return any(len(part) >= _STRETCH and not any(_is_known(_folded(word)) for word in part) for part in longest)


def _is_known(word: str) -> bool:
    return word in _KNOWN or word.removesuffix("s") in _KNOWN or not word.isascii()


def _of_script(clause: str) -> Foreign | None:
    """Judge a clause by its scripts: words in a row of one that is neither Latin nor Han, or Japanese grammar."""
    if sum("\u3041" <= c <= "\u3096" for c in clause) >= _HIRAGANA:
        return Foreign(frozenset({"HIRAGANA"}), clause)
    run: list[re.Match[str]] = []
    for match in _WORD.finditer(clause):
        script = _script(match[0][0])
        other = script not in {"LATIN", "CJK", "KATAKANA", "HIRAGANA", "FULLWIDTH", "HALFWIDTH"}
        run = [*run, match] if other else []
        if len(run) >= _SCRIPT_WORDS or (run and script == "THAI" and len(match[0]) >= 3 * _SCRIPT_WORDS):
            return Foreign(frozenset({script}), clause[run[0].start() :])
    return None


@lru_cache(maxsize=8192)
def _folded(word: str) -> str:
    return re.sub(r"['’].*", "", fold(word))  # noqa: RUF001


@lru_cache(maxsize=4096)
def _script(c: str) -> str:
    return unicodedata.name(c, "UNKNOWN").split()[0]
